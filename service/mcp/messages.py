"""Errors for texts that are no message. The protocol's library drops such lines of standard input without an answer.

It keeps the last of duplicate keys, over standard input and over HTTP.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any, Final, cast

from mcp_types import INVALID_REQUEST, PARSE_ERROR

from service.mcp.streams import LineWriter
from service.parsing import DuplicateKeys, reject_duplicate_keys

MOST_NAMED: Final = 5
"""Maximal number of duplicate keys that one error names."""


async def answer_invalid_lines(lines: AsyncIterable[str], output: LineWriter) -> AsyncGenerator[str]:
    """Yield the lines that are JSON objects without duplicate keys.

    Skip empty lines, and answer all other lines with an error on `output`.
    """
    async for line in lines:
        if not line.strip():
            continue
        error = error_of(line)
        if error is None:
            yield line
        else:
            await output.write(json.dumps(error) + "\n")


def error_of(line: str) -> dict[str, Any] | None:
    """Return the JSON-RPC error for a line of input that is no message, or None for a message.

    The id of the error is null if the line does not tell the id of a request.
    """
    try:
        message: Any = json.loads(line)
    except json.JSONDecodeError as error:
        return _error(None, PARSE_ERROR, f"The line is not one complete JSON message: {error.msg}.")
    except RecursionError:
        return _error(None, PARSE_ERROR, "The message is nested too deeply.")
    except ValueError:
        return _error(None, PARSE_ERROR, "A number of the message has too many digits.")
    if not isinstance(message, dict):
        return _error(None, INVALID_REQUEST, "A message is one JSON object in one line.")
    return _duplicate_keys_error(line, cast("dict[str, Any]", message))


def duplicate_keys_error(body: bytes) -> dict[str, Any] | None:
    """Return the JSON-RPC error for a JSON body with duplicate keys, or None for all other bodies.

    A body that is not JSON has no error here, because the library answers it.
    """
    try:
        text = body.decode()
        return _duplicate_keys_error(text, json.loads(text))
    except (ValueError, RecursionError):
        return None


def _duplicate_keys_error(text: str, message: object) -> dict[str, Any] | None:
    try:
        reject_duplicate_keys(text)
    except DuplicateKeys as error:
        named = ", ".join(error.pointers[:MOST_NAMED])
        name = cast("dict[str, Any]", message).get("id") if isinstance(message, dict) else None
        return _error(name, INVALID_REQUEST, f"Send each key once: {named}.")
    return None


def _error(name: object, code: int, message: str) -> dict[str, Any]:
    known = name if isinstance(name, str | int) and not isinstance(name, bool) else None
    return {"jsonrpc": "2.0", "id": known, "error": {"code": code, "message": message}}
