"""The OpenAPI document that the service publishes.

`python -m tests.contract.published_document` writes it again after an intended change. With `--answers` it also writes
the answers to its examples, after texts or numbers of answers changed.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, cast

from service.command.in_process import evaluate
from service.main import create_app
from service.resources.catalogue import resources
from service.settings import Settings

PATH = Path(__file__).parents[2] / "api_schemas" / "openapi.json"
ANSWERS = PATH.with_name("response_examples.json")
PLACEHOLDERS = ("digest", "engine_version")
"""Fields of the published answers that stay as they are."""


def published_text() -> str:
    """Return the document with default settings, one value per line for readable diffs."""
    return json.dumps(create_app(Settings()).openapi(), indent=1, ensure_ascii=False) + "\n"


def renewed_answers() -> str:
    """Return the published answers with the current texts and numbers, one value per line."""
    published: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text("utf-8"))
    for computation in resources():
        for name, printed in published.get(computation.operation, {}).items():
            body = evaluate(computation, json.dumps(computation.examples[name]["value"]).encode(), instance="")
            assert isinstance(body, bytes), body
            kept = {field: printed[field] for field in PLACEHOLDERS}
            published[computation.operation][name] = _renewed(json.loads(body), printed) | kept
    return json.dumps(published, indent=1, ensure_ascii=False) + "\n"


def _renewed(answer: Any, printed: Any) -> Any:
    """Return the published part of an answer. Numbers that differ in their last digits stay."""
    if isinstance(printed, dict):
        return {key: _renewed(answer[key], value) for key, value in cast("dict[str, Any]", printed).items()}
    if isinstance(printed, list) and len(cast("list[Any]", printed)) == len(answer):
        return [_renewed(*pair) for pair in zip(answer, cast("list[Any]", printed), strict=True)]
    is_close = isinstance(printed, float) and isinstance(answer, float) and math.isclose(answer, printed, rel_tol=1e-9)
    return printed if is_close else answer


if __name__ == "__main__":
    if "--answers" in sys.argv:
        ANSWERS.write_text(renewed_answers(), "utf-8")
    PATH.write_text(published_text(), "utf-8")
