"""The Python client with a real server: the same values as without a server."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx2
import pytest
from typing_extensions import override

from privacy_bounds import AsyncClient, Client, Curves, Local, Number, Refused, Unreachable
from privacy_bounds.api import encode
from service.signing.verification import verify_file
from tests.signing.statements import key_set, pem, write
from tests.system.running_server import running_server

RUN = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
CONTEXT = {"delta": 1e-5, "dataset_size": 48_000}
QUESTION = {"mechanism": RUN, "questions": [{"type": "epsilon", "delta": 1e-5}]}


def test_server_and_local_client_give_same_answers(server: httpx2.Client) -> None:
    client, local = Client(str(server.base_url), headers={"X-Request-ID": "notebook"}), Local()
    assert client.epsilon(RUN, delta=1e-5) == local.epsilon(RUN, delta=1e-5)
    assert client.power(RUN, [1e-3, 0.1]) == local.power(RUN, [1e-3, 0.1])
    assert client.assess(RUN, CONTEXT) == local.assess(RUN, CONTEXT)
    assert client.report(RUN, CONTEXT) == local.report(RUN, CONTEXT)
    assert client.read([(1.0, 0.01, 1000)]) == local.read([(1.0, 0.01, 1000)])

    async def awaited() -> Number:
        async with AsyncClient(str(server.base_url)) as asking:
            return await asking.advantage(RUN)

    assert asyncio.run(awaited()) == local.advantage(RUN)


def test_server_and_local_client_reject_alike(server: httpx2.Client) -> None:
    problems = []
    for asking in (Client(str(server.base_url)), Local()):
        with pytest.raises(Refused) as caught:
            asking.epsilon(RUN | {"steps": 0}, delta=1e-5)
        with pytest.raises(Refused, match="text/markdown") as unknown:
            asking.report(RUN, CONTEXT, form="text/nothing")
        with pytest.raises(Refused, match="Accept") as sent:
            asking.send("/v1/assessments", encode({"mechanism": RUN, "context": CONTEXT}), "text/nothing")
        errors = (caught.value, unknown.value, sent.value)
        problems.append([error.problem.model_copy(update={"request_id": ""}) for error in errors])
    assert problems[0] == problems[1]


def test_a_service_and_this_process_draw_the_same(server: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)

    async def awaited() -> Curves:
        async with AsyncClient(str(server.base_url)) as asking:
            return await asking.curves(RUN, [1e-3, 0.1])

    with Client(str(server.base_url)) as client:
        pictures = [asking.curves(RUN, [1e-3, 0.1]).plot() for asking in (client, Local())]
    assert pictures[0] == pictures[1] == asyncio.run(awaited()).plot()


@contextmanager
def foreign_server() -> Generator[str]:
    """Yield the address of a server that is not this service."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))  # Unread data would reset the connection.
            self.send_error(502)

        @override
        def log_message(self, format: str, *args: object) -> None:
            pass

    other = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=other.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{other.server_port}"
    finally:
        other.shutdown()
        other.server_close()
        thread.join()


def test_foreign_server_raises_unreachable() -> None:
    with foreign_server() as address, pytest.raises(Unreachable, match="502"):
        Client(address).epsilon(RUN, delta=1e-5)


@pytest.mark.thorough
def test_clients_receive_signed_statements(tmp_path: Path) -> None:
    path = write(tmp_path, "keys.pem", pem(1))
    with running_server(tmp_path, signing_keys=path) as live:
        address = str(live.base_url)

        async def awaited() -> bytes:
            async with AsyncClient(address) as asking:
                return await asking.sign("/v1/bounds", QUESTION)

        with Client(address) as client:
            signed = client.sign("bounds", QUESTION)
        assert signed == asyncio.run(awaited())
    epsilon = Local().epsilon(RUN, delta=1e-5)
    assert verify_file(signed, key_set(1)).answer["answers"][0]["value"] == epsilon.value


def test_service_without_a_key_refuses_to_sign(server: httpx2.Client) -> None:
    with pytest.raises(Refused, match="no signing key"):
        Client(str(server.base_url)).sign("bounds", {"mechanism": RUN, "questions": [{"type": "advantage"}]})
