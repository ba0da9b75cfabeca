"""Lines on standard input that are no message get an error of JSON-RPC, and everything else passes unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.mcp.messages import error_of

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
