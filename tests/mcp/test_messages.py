"""Texts that are no message get an error of JSON-RPC, and everything else passes unchanged."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from service.mcp.http_layers import without_duplicate_keys
from service.mcp.messages import duplicate_keys_error, error_of

CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "bounds"}}


@pytest.mark.parametrize("end", range(1, len(json.dumps(CALL))))
def test_message_that_breaks_off_is_a_parse_error(end: int) -> None:
    error = error_of(json.dumps(CALL)[:end])
    assert error is not None
    assert (error["id"], error["error"]["code"]) == (None, -32700)


@pytest.mark.parametrize(
    ("line", "name", "code", "said"),
    [
        ('{"id": 7, "params": {"a": {"b": 1, "b": 2}, "c": 1, "c": 1}}', 7, -32600, "/params/c, /params/a/b"),
        ('{"id": true, "id": true}', None, -32600, "/id"),
        ("[]", None, -32600, "one JSON object"),
        ("7", None, -32600, "one JSON object"),
        ('{"id": 1} {"id": 2}', None, -32700, "Extra data"),
        ("[" * 100_000, None, -32700, "nested too deeply"),
        ('{"id": ' + "1" * 5_000 + "}", None, -32700, "too many digits"),
    ],
)
def test_invalid_line_is_explained(line: str, name: Any, code: int, said: str) -> None:
    error = error_of(line)
    assert error is not None
    assert (error["jsonrpc"], error["id"], error["error"]["code"]) == ("2.0", name, code)
    assert said in error["error"]["message"]


def test_messages_pass() -> None:
    for message in (CALL, {"jsonrpc": "2.0", "method": "notifications/initialized"}, {}):
        assert error_of(json.dumps(message)) is None


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"id": 7, "params": {"a": {"b": 1, "b": 1}}}', "/params/a/b"),
        (b'[{"a": 1, "a": 2}]', "/0/a"),
        (b'{"id": 1, "id": 1}', "/id"),
        (b'{"a": 1', None),
        (b"\xff", None),
        (b"", None),
        (b"[" * 100_000, None),
        (b'{"a": ' + b"1" * 5_000 + b"}", None),
        (json.dumps(CALL).encode(), None),
    ],
)
def test_body_with_duplicate_keys_is_an_error_and_every_other_body_passes(body: bytes, named: str | None) -> None:
    error = duplicate_keys_error(body)
    assert (error is None) == (named is None)
    if error is not None:
        assert error["error"] == {"code": -32600, "message": f"Send each key once: {named}."}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("body", "is_rejected"),
    [(b'{"id": 1, "id": 1}', True), (b'{"id": 1}', False), (b'{"a": 1, "a": 1, "b": "' + b"x" * 200 + b'"}', False)],
)
def test_application_receives_every_other_body_unchanged(body: bytes, size: int, is_rejected: bool) -> None:
    """The application receives every body that is a message unchanged.

    The body arrives in pieces of `size` bytes. The last body is longer than the limit, which the library checks.
    """
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    waiting: list[Message] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    waiting += [{"type": "http.request", "body": b""}, {"type": "http.disconnect"}]
    received: list[Message] = []
    sent: list[Message] = []

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        while not received or received[-1]["type"] != "http.disconnect":
            received.append(await receive())

    async def called() -> None:
        await without_duplicate_keys(app, 100)({"type": "http", "method": "POST", "headers": []}, receive, send)

    asyncio.run(called())
    if is_rejected:
        assert not received
        assert sent[0]["status"] == 400
        assert json.loads(sent[1]["body"])["id"] == 1
    else:
        assert not sent
        assert b"".join(each.get("body", b"") for each in received) == body
