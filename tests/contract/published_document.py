"""The OpenAPI document that the service publishes.

`python -m tests.contract.published_document` writes it again after an intended change.
"""

from __future__ import annotations

import json
from pathlib import Path

from service.main import create_app
from service.settings import Settings

PATH = Path(__file__).parents[2] / "api_schemas" / "openapi.json"


def published_text() -> str:
    """Return the document with default settings, one value per line for readable diffs."""
    return json.dumps(create_app(Settings()).openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(published_text(), "utf-8")
