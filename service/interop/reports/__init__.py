"""An assessment in other forms than JSON: for a model card, an experiment tracker, and a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from api_schemas.assessments import AssessmentsResponse
from service.interop.reports.markdown import model_card
from service.interop.reports.mlflow import MLFLOW, mlflow_run
from service.interop.reports.plain_text import plain_text

RENDERINGS: Final[Mapping[str, Callable[[AssessmentsResponse], str]]] = {
    "text/markdown": model_card,
    "text/plain": plain_text,
    MLFLOW: mlflow_run,
}
"""By media type."""
