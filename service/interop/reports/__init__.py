"""An assessment in other forms than JSON: for cards, trackers, bills of materials, and a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from api_schemas.assessments import AssessmentsResponse
from service.interop.reports.croissant import CROISSANT, croissant
from service.interop.reports.cyclonedx import CYCLONEDX, cyclonedx
from service.interop.reports.hugging_face import YAML, hugging_face
from service.interop.reports.markdown import model_card
from service.interop.reports.mlflow import MLFLOW, mlflow_run
from service.interop.reports.plain_text import plain_text

RENDERINGS: Final[Mapping[str, Callable[[AssessmentsResponse], str]]] = {
    "text/markdown": model_card,
    "text/plain": plain_text,
    MLFLOW: mlflow_run,
    CYCLONEDX: cyclonedx,
    CROISSANT: croissant,
    YAML: hugging_face,
}
"""By media type."""
