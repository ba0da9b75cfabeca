"""Request bodies and helpers that the tests of the HTTP API share."""

from __future__ import annotations

import json
from typing import Any

from starlette.testclient import TestClient

ROUTE = "/v1/bounds"
JSON = {"Content-Type": "application/json"}
GAUSSIAN: dict[str, Any] = {"type": "gaussian", "noise_multiplier": 1.0}
ADVANTAGE: dict[str, Any] = {"type": "advantage"}


def dpsgd(**changes: Any) -> dict[str, Any]:
    return {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000, **changes}


def bounds(mechanism: Any = GAUSSIAN, questions: Any = (ADVANTAGE,), **more: Any) -> dict[str, Any]:
    return {"mechanism": mechanism, "questions": questions, **more}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def post(client: TestClient, body: bytes | dict[str, Any], **headers: str) -> Any:
    content = body if isinstance(body, bytes) else encoded(body)
    return client.post(ROUTE, content=content, headers=JSON | {key.replace("_", "-"): headers[key] for key in headers})
