"""The OpenAPI document as the service publishes it.

`python -m tests.contract.published_document` writes it anew after a change that is meant.
"""

from __future__ import annotations

import json
from pathlib import Path

from service.main import create_app
from service.settings import Settings

PATH = Path(__file__).parents[2] / "api_schemas" / "openapi.json"


def published_text() -> str:
    """The document with default settings; one line for each value, so that changes are easy to read."""
    return json.dumps(create_app(Settings()).openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(published_text(), "utf-8")
