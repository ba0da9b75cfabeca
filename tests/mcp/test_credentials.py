"""Credentials of assistants over HTTP, and pages of other origins on an address that others reach."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from service.access.errors import AuthenticationUnavailable
from service.mcp.server import refuse_call
from tests.access.keys import bearer, make_key
from tests.mcp.test_protocol import BOUNDS, COMMAND, http_server, text_of
from tests.timeouts import TEST_TIMEOUT

MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPTED = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Yield the address of a server on all addresses, whose folder has a key."""
    make_key(folder, "jobs")
    environment = os.environ | {"PRIVACY_BOUNDS_DATA_FOLDER": str(folder)}
    with subprocess.Popen([*COMMAND, "--http", "0.0.0.0:0"], env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        port = process.stderr.readline().decode().rpartition(":")[2].partition("/")[0]
        yield f"http://127.0.0.1:{port}/mcp"
        process.send_signal(signal.SIGTERM)
        process.wait(TEST_TIMEOUT)


def test_calls_need_the_scope_compute(address: str, folder: Path) -> None:
    states = [({}, 401), (bearer("wrong"), 401), (bearer(make_key(folder, "jobs")), 403)]
    for sent, status in states:
        for method in ("POST", "GET", "DELETE", "PUT"):
            answer = httpx2.request(method, address, json=MESSAGE, headers=ACCEPTED | sent, timeout=TEST_TIMEOUT)
            assert answer.status_code == status
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert "epsilon" not in answer.text


async def bounds_called(address: str, key: str) -> Any:
    """Return the result of the tool `bounds`, called with a key."""
    async with (
        httpx2.AsyncClient(headers=bearer(key), timeout=TEST_TIMEOUT) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        return await client.call_tool("bounds", BOUNDS)


def test_assistant_with_a_key_calls_a_tool(address: str, folder: Path) -> None:
    result = asyncio.run(bounds_called(address, make_key(folder, "compute")))
    assert result.structured_content["answers"]


def test_caller_over_its_work_limit_gets_the_problem(folder: Path) -> None:
    """A caller over its work limit gets the problem.

    The first answer uses up a limit of one unit. The next call is refused, but not that of another group.
    """
    one, two = (make_key(folder, "compute", name="robot", group=group) for group in ("one", "two"))
    with http_server(data_folder=str(folder), work_limit="1/day", require_authentication="true") as (address, _):
        answers = [asyncio.run(bounds_called(address, key)) for key in (one, one, two)]
    assert [answer.is_error for answer in answers] == [False, True, False]
    problem = answers[1].structured_content
    assert (problem["status"], problem["type"], problem["limit"]) == (429, "/problems/work-limit-exceeded", 1)
    assert "answers" not in problem
    assert "work" in text_of(answers[1])


def test_refused_call_says_when_to_try_again() -> None:
    refused: Any = refuse_call(AuthenticationUnavailable(), {"path": "/mcp"})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def test_pages_cannot_call_a_server_that_others_reach(address: str, folder: Path) -> None:
    key = bearer(make_key(folder, "compute"))
    for origin in ("https://evil.example.com", address.removesuffix("/mcp"), "null"):
        sent = ACCEPTED | key | {"Origin": origin}
        assert httpx2.post(address, json=MESSAGE, headers=sent, timeout=TEST_TIMEOUT).status_code == 403
