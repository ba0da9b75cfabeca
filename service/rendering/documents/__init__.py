"""Assessments as documents: model cards, experiment trackers, bills of materials, data set metadata, plain text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from api_schemas.assessments import AssessmentsResponse
from service.rendering.documents.croissant import CROISSANT, croissant
from service.rendering.documents.cyclonedx import CYCLONEDX, cyclonedx
from service.rendering.documents.hugging_face import YAML, hugging_face
from service.rendering.documents.markdown import model_card
from service.rendering.documents.mlflow import MLFLOW, mlflow_run
from service.rendering.documents.plain_text import plain_text

DOCUMENT_WRITERS: Final[Mapping[str, Callable[[AssessmentsResponse], str]]] = {
    "text/markdown": model_card,
    "text/plain": plain_text,
    MLFLOW: mlflow_run,
    CYCLONEDX: cyclonedx,
    CROISSANT: croissant,
    YAML: hugging_face,
}
"""Functions that write an assessment, by media type."""
