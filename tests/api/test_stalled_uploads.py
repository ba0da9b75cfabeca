"""Stalled uploads of one client, or of many, leave room for the bodies of others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from service.api import request_reading
from service.main import create_app
from service.settings import Settings
from tests.api.requests import dpsgd
from tests.timeouts import TEST_TIMEOUT

BODY = 2**20
HELD = b"{" + b" " * (BODY - 2)
"""The largest body except for one byte."""
ASKED = json.dumps({"mechanism": dpsgd(), "questions": [{"type": "advantage"}]}).encode()
ARCHIVE = "application/x-npz"


class Sender:
    """Request whose body the test sends in pieces."""

    def __init__(self, application: Any, state: dict[str, Any], requester: str, media_type: str) -> None:
        path = "/v1/audits/glir" if media_type == ARCHIVE else "/v1/bounds"
        self.pieces: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"content-type", media_type.encode())],
            "client": (requester, 1),
            "state": state,
        }
        self.task = asyncio.create_task(application(scope, self.pieces.get, self._take))

    def send(self, piece: bytes, *, is_last: bool = False) -> None:
        self.pieces.put_nowait({"type": "http.request", "body": piece, "more_body": not is_last})

    async def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.body += message.get("body", b"")

    async def answered(self) -> int:
        await asyncio.wait_for(self.task, TEST_TIMEOUT)
        return self.status


@asynccontextmanager
async def application(**limits: Any) -> AsyncGenerator[Any]:
    app = create_app(Settings(log_level="critical", max_body_bytes=BODY, **limits))
    async with app.router.lifespan_context(app) as state:
        yield lambda requester, media_type="application/json": Sender(app, dict(state or {}), requester, media_type)


async def settled() -> None:
    await asyncio.sleep(0.05)


async def test_stalled_bodies_of_one_client_give_way_to_others() -> None:
    async with application() as sender:
        hostile = [sender("192.0.2.1") for _ in range(request_reading.LARGEST_BODIES_AT_ONCE + 1)]
        for each in hostile:
            each.send(HELD)
        await settled()
        for _ in range(2):
            polite = [sender(f"198.51.100.{number}") for number in range(3)]
            for each in polite:
                each.send(ASKED[:9])
                each.send(ASKED[9:], is_last=True)
            assert [await each.answered() for each in polite] == [200, 200, 200]
        ended = [each for each in hostile if each.task.done()]
        assert 1 <= len(ended) <= 3
        for each in ended:
            problem = json.loads(each.body)
            assert (each.status, problem["type"]) == (503, "/problems/overloaded")
            assert int(each.headers[b"retry-after"]) >= 1
        for each in hostile:
            each.pieces.put_nowait({"type": "http.disconnect"})


async def test_stalled_bodies_of_many_clients_give_way_to_sending_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_reading, "GRACE_SECONDS", 0.01)
    async with application() as sender:
        hostile = [sender(f"192.0.2.{number}") for number in range(request_reading.LARGEST_BODIES_AT_ONCE + 1)]
        for each in hostile:
            each.send(HELD)
        await settled()
        polite = sender("198.51.100.1")
        for start in range(0, BODY - len(ASKED), BODY // 7):
            polite.send(b" " * (BODY // 8))
            await asyncio.sleep(0.001 * (start > 0))
        polite.send(ASKED, is_last=True)
        assert await polite.answered() == 200
        for each in hostile:
            each.pieces.put_nowait({"type": "http.disconnect"})


async def test_stalled_archives_of_one_client_give_way_to_others() -> None:
    async with application(max_upload_bytes=2 * BODY) as sender:
        hostile = [sender("192.0.2.1", ARCHIVE) for _ in range(request_reading.LARGEST_UPLOADS_AT_ONCE)]
        for each in hostile:
            each.send(b"PK" + b"x" * (2 * BODY - 3))
        await settled()
        polite = sender("198.51.100.1", ARCHIVE)
        polite.send(b"PK")
        polite.send(b"x" * 9, is_last=True)
        assert await polite.answered() == 422, "it was looked at"
        assert [each.status for each in hostile if each.task.done()] == [503]
        for each in hostile:
            each.pieces.put_nowait({"type": "http.disconnect"})
