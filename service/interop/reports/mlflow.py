"""An assessment as parameters, metrics and tags of a run of MLflow."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from api_schemas.assessments import AssessmentsResponse
from api_schemas.threat_models import WorstCaseThreatModel
from service.interop.reports.rows import rows

MLFLOW: Final = "application/vnd.mlflow.run+json"
LONGEST_PARAMETER: Final = 6000
LONGEST_TAG: Final = 5000
PREFIX: Final = "dp."


def mlflow_run(response: AssessmentsResponse) -> str:
    """`{"params", "metrics", "tags"}` for `log_params`, `log_metrics` and `set_tags`.

    Keys are of letters, digits, `_`, `-`, `.` and `/`; there are fewer than 100 parameters and 1000 metrics. Metrics
    are finite: an infinite one is left out and named in the tag dp.infinite.
    """
    metrics: dict[str, float] = {}
    infinite: list[str] = []
    for attacked in response.threat_models:
        model = attacked.threat_model
        own = (
            f"{model.type}.{model.neighboring_relation}."
            if isinstance(model, WorstCaseThreatModel)
            else f"{model.type}."
        )
        room = "" if attacked is response.threat_models[0] else own
        for row in rows(attacked.answers):
            for suffix, number in (("", row.value), (".lower", row.lower)):
                if number is not None and math.isfinite(number):
                    metrics[f"{PREFIX}{room}{row.key}{suffix}"] = number
                elif number is not None:
                    infinite.append(f"{PREFIX}{room}{row.key}{suffix}")
    if response.gdp is not None:
        metrics[f"{PREFIX}mu"], metrics[f"{PREFIX}regret"] = response.gdp.mu["value"], response.gdp.regret["value"]
    described = response.mechanism.model_dump(mode="json", exclude_defaults=True)
    context = response.context.model_dump(mode="json", exclude={"attested"}, exclude_none=True)
    params: dict[str, str] = {
        **{f"{PREFIX}mechanism.{name}": _short(value, LONGEST_PARAMETER) for name, value in described.items()},
        **{f"{PREFIX}{name}": _short(value, LONGEST_PARAMETER) for name, value in context.items()},
        f"{PREFIX}neighboring_relation": response.threat_model.neighboring_relation,
    }
    tags = {
        f"{PREFIX}result_digest": response.digest,
        f"{PREFIX}engine_version": response.engine_version,
        f"{PREFIX}statement": _short(response.statement, LONGEST_TAG),
        f"{PREFIX}hazards": " ".join(each.code for each in response.hazards if each.status == "present"),
        **({f"{PREFIX}infinite": " ".join(infinite)} if infinite else {}),
    }
    decision = response.decision
    if decision is not None:
        tags |= {
            f"{PREFIX}policy": decision.policy,
            f"{PREFIX}verdict": decision.verdict,
            f"{PREFIX}decision": decision.id,
        }
    return json.dumps({"params": params, "metrics": metrics, "tags": tags}, indent=1)


def _short(value: Any, longest: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= longest else text[: longest - 3] + "..."
