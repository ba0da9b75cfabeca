"""A service that other machines can reach: it starts only with a decision, and its credentials work from end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import httpx2
import pytest

from privacy_bounds import Client, InvalidArgument, Refused
from privacy_bounds.command import KEY_VARIABLE
from service.access.key_ring import REFRESH_SECONDS
from service.doctor.service_checks import check_service
from service.server.access import CannotAuthenticate, ensure_authentication
from service.settings import Settings
from tests.access.keys import bearer, make_key
from tests.conftest import port_of, reserved_port
from tests.slow_marker import sample_of
from tests.system.jobs import wait_for
from tests.system.running_server import running_server
from tests.timeouts import TEST_TIMEOUT

QUICK = {"mechanism": {"type": "gdp", "mu": 1.0}, "questions": [{"type": "advantage"}]}
EVERYWHERE = "0.0.0.0"


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "service.cli", *arguments],
        env=os.environ | {f"PRIVACY_BOUNDS_{name.upper()}": value for name, value in settings.items()},
        capture_output=True,
        text=True,
        check=False,
        timeout=TEST_TIMEOUT,
    )


@sample_of(2)
@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--host", EVERYWHERE, "--port", "0"),
        ("serve", "--host", "::", "--port", "0", "--workers", "2"),
        ("serve", "--host", EVERYWHERE, "--port", "0", "--share-port"),
        ("mcp", "--http", f"{EVERYWHERE}:0"),
    ],
    ids=" ".join,
)
def test_service_that_others_reach_needs_a_decision(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A service on an address that others reach does not start without a decision about credentials.

    The error is one sentence that names both remedies, and no socket listens before the service ends.
    """
    ended = run(*arguments, data_folder=str(tmp_path))
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    for way in ("privacy-bounds keys create", "PRIVACY_BOUNDS_REQUIRE_AUTHENTICATION=false"):
        assert way in ended.stderr


def test_operator_port_that_others_reach_needs_a_decision(tmp_path: Path) -> None:
    ended = run("serve", "--port", "0", data_folder=str(tmp_path), operator_bind=f"{EVERYWHERE}:9100")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert f"reach {EVERYWHERE}" in ended.stderr


DECISIONS: list[tuple[dict[str, object], str, bool]] = [
    ({}, "127.0.0.1", True),
    ({}, "::1", True),
    ({}, "localhost", True),
    ({}, "", False),
    ({}, "192.0.2.1", False),
    ({}, "service.example.com", False),
    ({"require_authentication": False}, EVERYWHERE, True),
    ({"require_authentication": True}, EVERYWHERE, True),
    ({"operator_bind": "127.0.0.1:9100"}, "127.0.0.1", True),
    ({"operator_bind": "unix:/operator.sock"}, "127.0.0.1", True),
    ({"operator_bind": "0.0.0.0:9100"}, "127.0.0.1", False),
    ({"operator_bind": "0.0.0.0:9100", "require_authentication": False}, "127.0.0.1", True),
]


@pytest.mark.parametrize(("given", "host", "starts"), DECISIONS, ids=str)
def test_what_starts_without_keys(tmp_path: Path, given: dict[str, object], host: str, starts: bool) -> None:
    settings = Settings.model_validate({"data_folder": tmp_path, **given})
    refusal = nullcontext() if starts else pytest.raises(CannotAuthenticate, match=r"REQUIRE_AUTHENTICATION=false\.$")
    with refusal:
        ensure_authentication(settings, host)
    make_key(tmp_path, "compute")
    ensure_authentication(settings, host)


def test_service_starts_without_redis_if_it_requires_credentials() -> None:
    """A service with its keys in Redis starts while Redis is down only if a setting requires credentials.

    Without Redis the service cannot find out whether keys exist.
    """
    with closing(reserved_port()) as place:
        address = f"redis://127.0.0.1:{port_of(place)}/0"
        given = {"redis_url": address, "seal_key": "s" * 32, "keys_store": "redis"}
        ensure_authentication(Settings.model_validate({**given, "require_authentication": True}), EVERYWHERE)
        with pytest.raises(CannotAuthenticate, match="Redis: ConnectionError"):
            ensure_authentication(Settings.model_validate(given), EVERYWHERE)


def test_key_set_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    issuer = {"token_issuer": "https://issuer.example.com", "token_audience": "a", "token_jwks": str(tmp_path / "none")}
    ended = run("serve", "--port", "0", data_folder=str(tmp_path), **issuer)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "credentials cannot be checked" in ended.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("closed")


@pytest.fixture(scope="module")
def operator_address() -> Iterator[str]:
    with closing(reserved_port()) as place:
        yield f"127.0.0.1:{port_of(place)}"


@pytest.fixture(scope="module")
def server(folder: Path, operator_address: str) -> Iterator[httpx2.Client]:
    """Yield a service on all addresses that has one key, and so requires credentials."""
    make_key(folder / "data", "compute", name="first")
    with running_server(
        folder, command=f"--host {EVERYWHERE}", operator_bind=operator_address, log_level="info"
    ) as client:
        yield client


def test_key_works_at_once_and_until_it_is_revoked(server: httpx2.Client, folder: Path) -> None:
    """A new key works at once in a running service, and until it is revoked, because the command changes its store."""
    assert server.post("/v1/bounds", json=QUICK).status_code == 401
    text = run("keys", "create", "--scope", "compute", data_folder=str(folder / "data")).stdout.strip()
    assert server.post("/v1/bounds", json=QUICK, headers=bearer(text)).status_code == 200
    began = time.monotonic()
    assert run("keys", "revoke", text[4:20], data_folder=str(folder / "data")).returncode == 0
    revoked = time.monotonic()
    wait_for(lambda: server.post("/v1/bounds", json=QUICK, headers=bearer(text)).status_code == 401)
    assert time.monotonic() - revoked < REFRESH_SECONDS + TEST_TIMEOUT / 10, time.monotonic() - began


def test_operator_port_asks_as_the_public_port_does(server: httpx2.Client, folder: Path, operator_address: str) -> None:
    """If others reach the public port, the operator port requires credentials too, with scopes of its own."""
    admin, metrics = make_key(folder / "data", "admin"), make_key(folder / "data", "metrics")
    with httpx2.Client(base_url=f"http://{operator_address}", timeout=TEST_TIMEOUT) as client:
        wait_for(lambda: client.get("/livez").status_code == 200)
        for path, right, other in (("/operate/jobs", admin, metrics), ("/metrics", metrics, admin)):
            statuses = [client.get(path, headers=sent).status_code for sent in ({}, bearer(other), bearer(right))]
            assert statuses == [401, 403, 200], path
    assert server.get("/operate/jobs", headers=bearer(admin)).status_code == 404


def test_credentials_are_in_no_log(server: httpx2.Client, folder: Path) -> None:
    text = make_key(folder / "data", "compute", name="logged")
    for sent in (bearer(text), bearer(text + "x"), {"Authorization": f"Basic {text}"}):
        server.post("/v1/bounds", json=QUICK, headers=sent)
    log = (folder / "server.log").read_text()
    refused = [line for line in map(json.loads, log.splitlines()) if line.get("problem") == "/problems/unauthenticated"]
    assert refused
    assert text[21:] not in log


def test_python_client_sends_its_key(server: httpx2.Client, folder: Path) -> None:
    with Client(str(server.base_url), retry_seconds=0) as client, pytest.raises(Refused) as refused:
        client.epsilon((1.0, 0.01, 10), delta=1e-5)
    assert refused.value.problem.status == 401
    with Client(str(server.base_url), api_key=make_key(folder / "data", "compute")) as client:
        assert client.epsilon((1.0, 0.01, 10), delta=1e-5).value > 0
        assert "pbk_" not in repr(client) + repr(client.address)


@pytest.mark.parametrize("text", ["", "a b", "pbk_ä", "a\r\nX-Other: 1"])
def test_python_client_refuses_malformed_keys(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^api_key: "):
        Client("http://127.0.0.1", api_key=text)
    with pytest.raises(InvalidArgument, match="Authorization"):
        Client("http://127.0.0.1", api_key="key", headers={"authorization": "Bearer other"})


def test_command_of_jobs_takes_its_key_from_the_environment(server: httpx2.Client, folder: Path) -> None:
    key = make_key(folder / "data", "jobs")
    listed = run("jobs", "list", "--url", str(server.base_url))
    assert listed.returncode == 2
    assert json.loads(listed.stderr)["type"] == "/problems/unauthenticated"
    allowed = run("jobs", "list", "--url", str(server.base_url), **{KEY_VARIABLE.removeprefix("PRIVACY_BOUNDS_"): key})
    assert (allowed.returncode, allowed.stderr) == (0, "")


def test_doctor_reads_the_verdict_without_a_key_and_the_checks_with_one(
    server: httpx2.Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    wait_for(lambda: server.get("/readyz").json()["status"] == "ready")
    for key in ("", "wrong", make_key(folder / "data", "metrics")):
        monkeypatch.setenv(KEY_VARIABLE, key)
        assert [each.sentence for each in check_service(str(server.base_url))] == ["The service is ready."]
