"""Tools and documents for assistants, called with the client of the protocol's SDK, over standard streams and HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, get_args

import httpx2
import psutil
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from api_schemas.claims import ClaimVerdict
from api_schemas.policies import PolicyVerdict
from service.command.in_process import evaluate
from service.mcp.answers import answer_result
from service.mcp.tools import TOOLS, computation_of
from service.rendering.tables.shell import number_rows
from tests.slow_marker import thorough
from tests.timeouts import TEST_TIMEOUT

COMMAND: Final = (sys.executable, "-m", "service.cli", "mcp")
DPSGD: Final[dict[str, Any]] = {"type": "dpsgd", "noise_multiplier": 1.1, "sample_rate": 0.004, "steps": 3000}
EPSILON: Final[dict[str, Any]] = {"type": "epsilon", "delta": 1e-5}
BOUNDS: Final[dict[str, Any]] = {"mechanism": DPSGD, "questions": [EPSILON]}
LARGEST_SCHEMA: Final = 20_000
"""Characters of the largest schema that a tool may have: an assistant reads all of them before a conversation."""


@asynccontextmanager
async def assistant() -> AsyncGenerator[Client]:
    """Yield a client of a new server over standard streams."""
    parameters = StdioServerParameters(command=COMMAND[0], args=list(COMMAND[1:]), env=dict(os.environ))
    async with Client(stdio_client(parameters)) as client:
        yield client


@contextmanager
def http_server(*, port: int = 0, **settings: str) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
    """Yield the address of a new server over HTTP, and its process."""
    given = {f"PRIVACY_BOUNDS_{name.upper()}": value for name, value in settings.items()}
    command = [*COMMAND, "--http", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, env=os.environ | given, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        yield process.stderr.readline().decode().strip(), process
        process.send_signal(signal.SIGTERM)
        process.wait(TEST_TIMEOUT)


def text_of(result: Any) -> str:
    return "\n".join(each.text for each in result.content)


def answer_text(tool: str, arguments: dict[str, Any]) -> str:
    """Return the text of the answer to a tool, without a server."""
    computation = computation_of(tool)
    body = evaluate(computation, json.dumps(arguments).encode(), instance=tool)
    assert isinstance(body, bytes), body
    return text_of(answer_result(body))


def good_arguments() -> Iterator[tuple[str, str]]:
    """Yield the tool and the name of every published example of a request."""
    for name in TOOLS:
        for example in computation_of(name).examples:
            yield name, example


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with http_server() as (found, _):
        yield found


async def call(address: str, name: str, arguments: dict[str, Any]) -> Any:
    """Return the result of a tool. Raise the MCPError of the call in place of the exception group of the client."""
    async with Client(address) as client:
        try:
            return await client.call_tool(name, arguments)
        except MCPError as error:
            failure = error
    raise failure


def test_tools_have_compact_schemas(address: str) -> None:
    async def listed() -> Any:
        async with Client(address) as client:
            return (await client.list_tools()).tools

    tools = asyncio.run(listed())
    assert [tool.name for tool in tools] == list(TOOLS)
    for tool in tools:
        schema = tool.input_schema
        assert len(json.dumps(schema)) <= LARGEST_SCHEMA
        whole = computation_of(tool.name).request_type.model_json_schema()
        assert schema["properties"].keys() == whole["properties"].keys()
        assert set(schema.get("required", ())) == set(whole.get("required", ()))
        assert tool.description


@pytest.mark.parametrize(("name", "example"), list(good_arguments()))
def test_every_published_example_is_answered_with_bounds(address: str, name: str, example: str) -> None:
    result = asyncio.run(call(address, name, computation_of(name).examples[example]["value"]))
    text, response = text_of(result), result.structured_content
    assert not result.is_error, text
    for row in number_rows(response)[:200]:
        if row.lower is None:
            assert f"- {row.what}: about " in text
        else:
            assert f"- {row.what}: from {row.lower!r} to {row.upper!r}" in text
    for described in (response, *response.get("runs", ())):
        for each in (*described.get("assumptions", ()), *described.get("hazards", ())):
            assert each["code"] in text
            assert each["text"] in text
    assert response["digest"] in text


def test_comparison_ranks_runs_and_describes_each() -> None:
    noisier = DPSGD | {"noise_multiplier": 2.2}
    runs = [{"name": "noisier", "mechanism": noisier}, {"name": "usual", "mechanism": DPSGD}]
    text = answer_text("compare", {"runs": runs, "questions": [EPSILON]})
    assert "Best by epsilon(delta=1e-05): noisier." in text
    assert "Curves of noisier (first) and usual (second): first_is_harder." in text
    assert text.count("sampling_is_poisson (holds: unknown)") == len(runs)


def test_calibration_names_the_value() -> None:
    target = {"question": EPSILON, "at_most": 0.5}
    free = "/mechanism/noise_multiplier"
    text = answer_text("calibrate", {"mechanism": DPSGD, "free": free, "targets": [target]})
    assert re.match(rf"{free}: 1\.7177\d* \(met\)\.", text)


def test_refuted_claim_has_one_row_with_evidence() -> None:
    text = answer_text("check_claims", {"mechanism": DPSGD, "claims": [{"question": EPSILON, "value": 0.9}]})
    rows = [line for line in text.splitlines() if line.startswith("- ") and "safe value" in line]
    assert len(rows) == 1
    assert "(certified)" in rows[0]
    assert "Claim 0 of 0.9: unsafe; it holds: no." in text


def test_assessment_names_the_changed_run() -> None:
    microbatches = {"delta": 1e-5, "microbatch_size": 4}
    text = answer_text("assess", {"mechanism": DPSGD, "context": microbatches})
    assert "All numbers belong to a changed run" in text
    assert "- worst_case: epsilon(delta=1e-05): from" in text


@pytest.mark.parametrize(("tool", "words"), [("check_claims", ClaimVerdict), ("assess", PolicyVerdict)])
def test_descriptions_use_the_verdicts_of_the_contract(tool: str, words: Any) -> None:
    listed = re.search(r": ([a-z]+), ?([a-z]+) or ([a-z]+), with", TOOLS[tool].description)
    assert listed is not None
    assert {*listed.groups()} <= {*get_args(get_args(words)[0])}


BAD: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "no arguments": ("bounds", {}, "/mechanism"),
    "wrong type": ("bounds", {"mechanism": "dpsgd", "questions": [EPSILON]}, "/mechanism"),
    "unknown mechanism": ("bounds", {"mechanism": {"type": "magic"}, "questions": [EPSILON]}, "/mechanism/type"),
    "negative noise": (
        "bounds",
        BOUNDS | {"mechanism": DPSGD | {"noise_multiplier": -1}},
        "/mechanism/noise_multiplier",
    ),
    "unknown field": ("bounds", BOUNDS | {"question": 1}, "/question"),
    "not a number": ("bounds", BOUNDS | {"relative_tolerance": float("nan")}, "/relative_tolerance"),
    "one megabyte": ("bounds", BOUNDS | {"method": "x" * 2**20}, "too large"),
    "state of nobody": ("import_state", {"format": "opacus", "content": {}}, "/content"),
    "no targets": ("calibrate", {"mechanism": DPSGD}, "/targets"),
    "no runs": ("compare", {"questions": [EPSILON]}, "/runs"),
    "no mechanism": ("assess", {}, "/mechanism"),
    "no claims": ("check_claims", {"mechanism": DPSGD}, "/claims"),
    "no question": ("certify", {"mechanism": DPSGD}, "/question"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named(address: str, name: str) -> None:
    tool, arguments, place = BAD[name]
    result = asyncio.run(call(address, tool, arguments))
    assert result.is_error
    assert place in text_of(result)
    assert re.fullmatch("/problems/[a-z-]+", result.structured_content["type"])


def test_every_tool_is_called_with_bad_arguments() -> None:
    assert {tool for tool, _, _ in BAD.values()} == set(TOOLS)


@pytest.mark.parametrize("name", ["nothing", "", "x" * 10_000, "../bounds"])
def test_unknown_tool_is_a_protocol_error(address: str, name: str) -> None:
    with pytest.raises(MCPError, match="There is no tool") as caught:
        asyncio.run(call(address, name, {}))
    assert len(str(caught.value)) < 1000


def test_documents_are_listed_and_read(address: str) -> None:
    async def read() -> dict[str, str]:
        async with Client(address) as client:
            listed = (await client.list_resources()).resources
            return {each.uri: (await client.read_resource(each.uri)).contents[0].text for each in listed}  # type: ignore[union-attr]

    found = asyncio.run(read())
    assert {"privacy-bounds://catalogue", "privacy-bounds://errata", "privacy-bounds://guide/answers"} <= set(found)
    assert json.loads(found["privacy-bounds://catalogue"])["mechanisms"]
    assert all(len(text) > 200 for text in found.values())


@pytest.mark.parametrize(
    "uri", ["privacy-bounds://guide/nothing", "privacy-bounds://guide/../../settings.py", "file:///etc/passwd"]
)
def test_unknown_document_is_a_protocol_error(address: str, uri: str) -> None:
    async def read() -> str:
        async with Client(address) as client:
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            return str(caught.value)

    assert "no document" in asyncio.run(read())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example.com"}, 421),
        ({"Host": "evil.example.com:8001", "Origin": "http://localhost:8001"}, 421),
    ],
)
def test_foreign_pages_are_rejected(address: str, headers: dict[str, str], status: int) -> None:
    """Requests by DNS rebinding or from other sites are rejected.

    The tool is not executed, and the answer names no tool.
    """
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "bounds", "arguments": BOUNDS}}
    accepted = {"Accept": "application/json, text/event-stream"}
    answer = httpx2.post(address, json=message, headers=accepted | headers, timeout=TEST_TIMEOUT)
    assert answer.status_code == status
    assert "epsilon" not in answer.text


def test_message_with_duplicate_keys_is_rejected(address: str) -> None:
    """A message with duplicate keys is rejected.

    The library would keep the last noise multiplier, which the caller has not checked.
    """
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "bounds", "arguments": BOUNDS}}
    text = json.dumps(message).replace('"arguments": {', '"arguments": {"mechanism": {"type": "gdp", "mu": 9.0}, ', 1)
    sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    answer = httpx2.post(address, content=text, headers=sent, timeout=TEST_TIMEOUT)
    assert (answer.status_code, answer.json()["id"]) == (400, 5)
    assert answer.json()["error"]["message"] == "Send each key once: /params/arguments/mechanism."


def test_large_message_is_rejected(address: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y" * 3 * 2**20}}
    answer = httpx2.post(address, json=message, headers={"Accept": "application/json"}, timeout=TEST_TIMEOUT)
    assert answer.status_code == 413


def test_costly_call_is_refused_as_over_http() -> None:
    with http_server(max_cost="1000") as (address, _):
        result = asyncio.run(call(address, "bounds", BOUNDS | {"method": "ground_truth", "digits": 50}))
    assert result.structured_content["type"] == "/problems/compute-budget-exceeded"


@pytest.mark.thorough
def test_standard_streams_carry_the_protocol() -> None:
    async def answers() -> Any:
        async with assistant() as client:
            good = await client.call_tool("bounds", BOUNDS)
            bad = await client.call_tool("bounds", {})
            again = await client.call_tool("bounds", BOUNDS)
            return good, bad, again

    good, bad, again = asyncio.run(answers())
    assert good.structured_content == again.structured_content
    assert bad.is_error
    answer = good.structured_content["answers"][0]
    assert answer["lower"] <= answer["value"] <= answer["upper"]


def test_standard_output_has_nothing_but_messages() -> None:
    """Standard output has nothing but messages, whatever arrives.

    The end of the input ends all processes.
    """
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    sent = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "bounds", "arguments": BOUNDS}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 7}},
        {"jsonrpc": "2.0", "id": 4, "method": "nothing"},
    ]
    lines = [json.dumps(each).encode() for each in sent]
    lines.insert(2, b"this is no message \xff")
    lines.insert(
        2, b'{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "bounds", "name": "bounds"}}'
    )
    environment = os.environ | {"PRIVACY_BOUNDS_LOG_LEVEL": "debug"}
    with subprocess.Popen(
        COMMAND, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n".join(lines) + b"\n")
        process.stdin.flush()
        answered: dict[Any, Any] = {}
        while not {None, 1, 2, 3, 4, 5} <= answered.keys():
            message = json.loads(process.stdout.readline())
            assert message["jsonrpc"] == "2.0"
            answered[message.get("id")] = message
        children = psutil.Process(process.pid).children(recursive=True)
        output, _ = process.communicate(lines[-2][:40], timeout=TEST_TIMEOUT)
    assert json.loads(output)["error"]["code"] == -32700  # of the message that breaks off
    assert process.returncode == 0
    assert answered[None]["error"]["code"] == -32700
    assert answered[5]["error"] == {"code": -32600, "message": "Send each key once: /params/name."}
    assert answered[2]["result"]["structuredContent"]["answers"]
    assert "error" in answered[3]
    assert "error" in answered[4]
    assert not psutil.wait_procs(children, timeout=TEST_TIMEOUT)[1]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--http", "0.0.0.0:8001"), 2, "other machines can reach"),
        thorough(("--http", "example.com:8001"), 2, "other machines can reach"),
        thorough(("--http", "[::]:8001"), 2, "other machines can reach"),
        thorough(("--http", "8001"), 2, "use HOST:PORT"),
        thorough(("--http", "127.0.0.1:99999"), 2, "use a port number"),
    ],
)
def test_address_that_others_could_reach_is_refused(arguments: tuple[str, ...], code: int, sentence: str) -> None:
    ended = subprocess.run([*COMMAND, *arguments], capture_output=True, check=False, timeout=TEST_TIMEOUT)
    assert (ended.returncode, ended.stdout) == (code, b"")
    assert sentence in ended.stderr.decode()


@pytest.mark.thorough
def test_port_in_use_is_one_sentence(address: str) -> None:
    port = address.rpartition(":")[2].partition("/")[0]
    command = [*COMMAND, "--http", f"127.0.0.1:{port}"]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=TEST_TIMEOUT)
    assert ended.returncode == 3
    assert ended.stderr.decode().count("\n") == 1
