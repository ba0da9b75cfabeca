"""Assessments as parameters, metrics and tags of an MLflow run."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from api_schemas.assessments import AssessedThreatModel, AssessmentsResponse
from api_schemas.policies import Decision
from api_schemas.threat_models import WorstCaseThreatModel
from service.rendering.documents.rows import rows
from service.rendering.sentences.void import is_refuted

MLFLOW: Final = "application/vnd.mlflow.run+json"
LONGEST_PARAMETER: Final = 6000
LONGEST_TAG: Final = 5000
PREFIX: Final = "dp."
AS_TAGS: Final = frozenset({"attested", "subject", "date", "prepared_by"})
"""Fields of the context that become tags instead of parameters."""


def mlflow_run(response: AssessmentsResponse) -> str:
    """Return an assessment as JSON for MLflow: arguments `params`, `metrics` and `tags` of its functions `log_*`.

    Keys consist of letters, digits, `_`, `-`, `.` and `/`. There are fewer than 100 parameters and 1000 metrics.
    Metrics are finite; the tag dp.infinite names the infinite ones. There are no metrics if nothing is proved about the
    run, and none about an attacker about whom an assumption does not hold. Epsilon at delta 1 is omitted as well, since
    it says nothing.
    """
    metrics: dict[str, float] = {}
    infinite: list[str] = []
    for attacked in response.threat_models if response.summary.bounded else ():
        if is_refuted(attacked):
            continue
        prefix = "" if attacked is response.threat_models[0] else _metric_prefix(attacked)
        for name, number in _metrics_of_attacker(attacked, prefix):
            if math.isfinite(number):
                metrics[name] = number
            else:
                infinite.append(name)
    if response.gdp is not None and response.summary.bounded:
        metrics[f"{PREFIX}mu"], metrics[f"{PREFIX}regret"] = response.gdp.mu["value"], response.gdp.regret["value"]
    tags = _tags(response) | ({f"{PREFIX}infinite": " ".join(infinite)} if infinite else {})
    return json.dumps({"params": _parameters(response), "metrics": metrics, "tags": tags}, indent=1)


def _metrics_of_attacker(attacked: AssessedThreatModel, room: str) -> list[tuple[str, float]]:
    return [
        (f"{PREFIX}{room}{row.key}{suffix}", number)
        for row in rows(attacked.answers)
        for suffix, number in (("", row.value), (".lower", row.lower))
        if number is not None and not row.says_nothing
    ]


def _metric_prefix(attacked: AssessedThreatModel) -> str:
    model = attacked.threat_model
    return (
        f"{model.type}.{model.neighboring_relation}." if isinstance(model, WorstCaseThreatModel) else f"{model.type}."
    )


def _parameters(response: AssessmentsResponse) -> dict[str, str]:
    described = response.mechanism.model_dump(mode="json", exclude_defaults=True)
    context = response.context.model_dump(mode="json", exclude=set(AS_TAGS), exclude_none=True)
    found: dict[str, Any] = {
        **{f"mechanism.{name}": value for name, value in described.items()},
        **context,
        "neighboring_relation": response.threat_model.neighboring_relation,
    }
    if response.judged_as is not None:
        found["judged_mechanism"] = response.judged_as.mechanism.model_dump(mode="json", exclude_defaults=True)
    return {f"{PREFIX}{name}": _short(value, LONGEST_PARAMETER) for name, value in found.items()}


def _tags(response: AssessmentsResponse) -> dict[str, str]:
    context, subject = response.context, response.context.subject
    found: dict[str, str | None] = {
        "title": response.summary.title,
        "summary": response.summary.paragraph,
        "result_digest": response.digest,
        "engine_version": response.engine_version,
        "statement": response.statement,
        "hazards": " ".join(each.code for each in response.hazards if each.status == "present"),
        "judged_as": None if response.judged_as is None else response.judged_as.text,
        "date": context.date,
        "prepared_by": context.prepared_by,
    }
    if subject is not None:
        found |= {
            "subject": subject.name,
            "subject_version": subject.version,
            "subject_uri": subject.uri,
            "subject_sha256": subject.sha256,
        }
    if response.decision is not None:
        found |= _decided(response.decision)
    return {f"{PREFIX}{name}": _short(text, LONGEST_TAG) for name, text in found.items() if text is not None}


def _decided(decision: Decision) -> dict[str, str | None]:
    return {
        "policy": decision.policy,
        "policy_name": decision.name,
        "verdict": decision.verdict,
        "verdict_sentence": decision.sentence,
        "missing_attestations": " ".join(decision.missing),
        "decision": decision.id,
    }


def _short(value: Any, longest: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= longest else text[: longest - 3] + "..."
