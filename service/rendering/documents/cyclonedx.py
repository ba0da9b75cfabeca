"""Assessments as CycloneDX 1.7 documents: a model with its model card, and claims about the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from api_schemas.assessments import AssessmentsResponse
from service.rendering.documents.declarations import SUBJECT, declarations
from service.rendering.documents.metrics import Metric, cautions, metrics, present_hazards, subject_name

CYCLONEDX: Final = "application/vnd.cyclonedx+json"
SCHEMA: Final = "http://cyclonedx.org/schema/bom-1.7.schema.json"
PREFIX: Final = "privacy-bounds:"
"""Prefix of our property names, as CycloneDX requires for extensions."""


def cyclonedx(response: AssessmentsResponse) -> str:
    """Return the assessment as a CycloneDX document in JSON.

    The document contains no time and no random number, so that equal assessments give equal documents.
    """
    document = {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, response.digest)}",
        "version": 1,
        "metadata": _metadata(response),
        "components": [_model_component(response)],
        "declarations": declarations(response),
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _metadata(response: AssessmentsResponse) -> dict[str, Any]:
    context = response.context
    tool = {"type": "application", "name": "privacy-bounds", "version": response.engine_version}
    return {
        **({} if context.date is None else {"timestamp": f"{context.date}T00:00:00Z"}),
        "tools": {"components": [tool]},
        **({} if context.prepared_by is None else {"authors": [{"name": context.prepared_by}]}),
    }


def _model_component(response: AssessmentsResponse) -> dict[str, Any]:
    subject = response.context.subject
    found: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": SUBJECT,
        "name": subject_name(response),
    }
    if subject is not None and subject.version is not None:
        found["version"] = subject.version
    if response.summary.paragraph:
        found["description"] = response.summary.paragraph
    if subject is not None and subject.sha256 is not None:
        found["hashes"] = [{"alg": "SHA-256", "content": subject.sha256}]
    if subject is not None and subject.uri is not None:
        found["externalReferences"] = [{"type": "distribution", "url": subject.uri}]
    found["modelCard"] = _card(response)
    found["properties"] = [{"name": PREFIX + name, "value": value} for name, value in _properties(response)]
    return found


def _card(response: AssessmentsResponse) -> dict[str, Any]:
    numbers = [_performance_metric(each) for each in metrics(response)]
    analysis = {"quantitativeAnalysis": {"performanceMetrics": numbers}} if numbers else {}
    considerations = {
        "technicalLimitations": cautions(response),
        "ethicalConsiderations": [
            {"name": each.title, "mitigationStrategy": each.remedy} for each in present_hazards(response)
        ],
    }
    filled = {name: value for name, value in considerations.items() if value}
    return {**analysis, **({"considerations": filled} if filled else {})}


def _performance_metric(metric: Metric) -> dict[str, Any]:
    row = metric.row
    ends = {"lowerBound": row.lower, "upperBound": row.upper}
    known = {name: repr(value) for name, value in ends.items() if value is not None}
    return {
        "type": row.key,
        "value": repr(row.value),
        "slice": metric.title,
        **({"confidenceInterval": known} if known else {}),
    }


def _properties(response: AssessmentsResponse) -> Iterator[tuple[str, str]]:
    yield "run", response.summary.title
    if response.summary.sentence:
        yield "sentence", response.summary.sentence
    yield "result", response.digest
    yield "engine_version", response.engine_version
    if (decided := response.decision) is not None:
        yield "decision", decided.id
        yield "policy", decided.policy
        yield "verdict", decided.verdict
        yield "verdict_sentence", decided.sentence
