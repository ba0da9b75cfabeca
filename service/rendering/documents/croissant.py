"""Assessments as data set metadata: Croissant 1.0 with the vocabulary of responsible AI (RAI 1.0)."""

from __future__ import annotations

import json
from typing import Any, Final

from api_schemas.assessments import AssessmentsResponse
from service.rendering.documents.metrics import Metric, cautions, metrics, subject_name

CROISSANT: Final = "application/ld+json"
CONFORMS_TO: Final = ("http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0")
_OURS: Final = (
    "citeAs column equivalentProperty extract field fileProperty fileObject fileSet format includes isLiveDataset "
    "jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source "
    "subField transform"
)
CONTEXT: Final[dict[str, Any]] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{name: f"cr:{name}" for name in _OURS.split()},
}
"""JSON-LD context from the specification of Croissant 1.0."""


def croissant(response: AssessmentsResponse) -> str:
    """Return the Croissant metadata (JSON-LD) of an assessed data set.

    Facts that only the publisher of the data knows are omitted: license, creator and files.
    """
    context, subject = response.context, response.context.subject
    document: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": subject_name(response),
        "description": response.summary.paragraph or response.summary.title,
        "conformsTo": list(CONFORMS_TO),
    }
    if subject is not None and subject.version is not None:
        document["version"] = subject.version
    if subject is not None and subject.uri is not None:
        document["url"] = subject.uri
    if context.date is not None:
        document["sdDatePublished"] = context.date
    if context.prepared_by is not None:
        document["sdPublisher"] = {"@type": "sc:Organization", "name": context.prepared_by}
    document |= {f"rai:{name}": texts for name, texts in _responsible_ai_fields(response).items() if texts}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _responsible_ai_fields(response: AssessmentsResponse) -> dict[str, str | list[str]]:
    # answers to the questions of RAI, the vocabulary for responsible AI
    decided, summary = response.decision, response.summary
    sentences = [summary.sentence] if summary.sentence else []
    source = f"Result {response.digest} of privacy-bounds, engine version {response.engine_version}."
    return {
        "dataPreprocessingProtocol": [f"Privacy mechanism: {summary.title}"],
        "personalSensitiveInformation": [*sentences, *map(_line, metrics(response))],
        "dataLimitations": cautions(response),
        "dataSocialImpact": "" if decided is None else f"Policy {decided.name}: {decided.sentence}",
        "dataReleaseMaintenancePlan": f"{source} Assess the data again before another release.",
    }


def _line(metric: Metric) -> str:
    return f"{metric.title}: at most {metric.row.at_most}."
