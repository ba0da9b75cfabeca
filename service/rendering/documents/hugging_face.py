"""Assessments as the metadata block of a Hugging Face model card."""

from __future__ import annotations

from typing import Any, Final, final

import yaml

from api_schemas.assessments import AssessmentsResponse
from service.rendering.documents.metrics import Metric, cautions, has_epsilon, metrics, subject_name

YAML: Final = "application/yaml"
TASK: Final = {"type": "other", "name": "Privacy assessment"}
"""Task of the result. The Hub has no task for privacy assessments."""


@final
class _Quoted(str):
    """Text that YAML writes in double quotes, so that neither YAML 1.1 nor 1.2 reads it as another type."""

    __slots__ = ()


@final
class _Dumper(yaml.SafeDumper):
    """YAML dumper that writes quoted texts, and repeats equal values instead of writing references."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the name that PyYAML calls
        # writes equal values again instead of references
        return True


_Dumper.add_representer(_Quoted, lambda _, text: yaml.ScalarNode("tag:yaml.org,2002:str", str(text), style='"'))


def hugging_face(response: AssessmentsResponse) -> str:
    """Return an assessment as the YAML metadata block at the top of a model card, with the opening line `---`.

    The block has results only if the assessment has finite and informative bounds.
    """
    name = _Quoted(subject_name(response))
    listed = metrics(response)
    block: dict[str, Any] = {
        "model_name": name,
        "tags": ["privacy", *(["differential-privacy"] if has_epsilon(response) else [])],
        "privacy_bounds": _facts_without_hub_field(response),
    }
    if listed:
        training = {"type": "private", "name": "Training data"}
        source = {"name": _Quoted(f"privacy-bounds {response.engine_version}")}
        result = {"task": TASK, "dataset": training, "metrics": [*map(_hub_metric, listed)], "source": source}
        block["model-index"] = [{"name": name, "results": [result]}]
    return yaml.dump(
        block, Dumper=_Dumper, sort_keys=False, allow_unicode=True, explicit_start=True, width=float("inf")
    )


def _hub_metric(metric: Metric) -> dict[str, Any]:
    return {"type": metric.row.key, "name": _Quoted(metric.title), "value": metric.row.value}


def _facts_without_hub_field(response: AssessmentsResponse) -> dict[str, Any]:
    # facts for which the Hub has no field
    context, decided, summary = response.context, response.decision, response.summary
    found: dict[str, Any] = {"run": _Quoted(summary.title)}
    if summary.sentence:
        found["sentence"] = _Quoted(summary.sentence)
    if decided is not None:
        found |= {"verdict": decided.verdict, "verdict_sentence": _Quoted(decided.sentence)}
        found |= {"decision": _Quoted(decided.id), "policy": _Quoted(decided.policy)}
    found |= {"result": _Quoted(response.digest), "engine_version": _Quoted(response.engine_version)}
    if context.date is not None:
        found["date"] = _Quoted(context.date)
    if context.subject is not None:
        subject = context.subject.model_dump(mode="json", exclude_none=True, exclude={"name"})
        found |= {f"subject_{key}": _Quoted(value) for key, value in subject.items()}
    if sentences := cautions(response):
        found["cautions"] = [*map(_Quoted, sentences)]
    return found
