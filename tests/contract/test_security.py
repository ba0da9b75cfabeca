"""Defaults and container settings that SECURITY.md describes, and its table of tests for all other promises."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from service.access import key_ring
from service.access.api_keys import SECRET_BYTES
from service.access.errors import Unauthenticated
from service.access.key_store import KeyFile
from service.command import main as cli
from service.jobs.job import new_id
from service.rendering.chart_images import MEMORY_LIMIT_BYTES
from service.settings import Settings
from service.signing import verification
from service.signing.errors import NotVerified
from service.signing.statement import parse_statement
from tests.access.keys import make_key
from tests.signing.statements import bounds_envelope, key_set

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text("utf-8")
SERVER_MEGABYTES = 900
"""Megabytes of the service with as many of the longest uploads as it accepts at once, and full caches."""


def stated(pattern: str) -> int:
    found = re.findall(pattern, COMPOSE)
    assert len(found) == 1, pattern
    return int(found[0])


def test_stored_jobs_leave_room_in_redis() -> None:
    """The byte quota of stored jobs removes old jobs before Redis is full."""
    [megabytes] = re.findall(r"(?m)^maxmemory (\d+)mb$", (ROOT / "deploy" / "redis" / "redis.conf").read_text("utf-8"))
    assert 2 * stated(r'PRIVACY_BOUNDS_JOB_STORED_BYTES: "(\d+)"') <= int(megabytes) * 2**20


def test_service_listens_on_loopback_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[str] = []
    monkeypatch.setattr(cli, "serve", lambda host, _: hosts.append(host) or 0)
    assert cli.main(["serve"]) == cli.main(["serve", "--host", "0.0.0.0"]) == 0
    assert hosts == ["127.0.0.1", "0.0.0.0"]


def test_no_proxy_is_trusted_by_default() -> None:
    assert Settings.model_fields["trusted_proxies"].default == ""


def test_random_bits_of_job_ids_and_api_keys() -> None:
    ids = {new_id() for _ in range(100)}
    assert len(ids) == 100
    assert {8 * len(bytes.fromhex(each)) for each in ids} == {192}
    assert 8 * SECRET_BYTES == 256


def test_container_has_own_user_without_rights() -> None:
    final_stage = (ROOT / "Dockerfile").read_text("utf-8").rpartition("\nFROM ")[2]
    assert re.findall(r"(?m)^USER (.*)$", final_stage) == ["10001:10001"]
    hardened = COMPOSE.partition("x-hardened: &hardened")[2].partition("\nservices:")[0]
    for line in ("read_only: true", "cap_drop: [ALL]", 'security_opt: ["no-new-privileges:true"]'):
        assert f"\n  {line}\n" in hardened
    services = COMPOSE.partition("\nservices:\n")[2].partition("\nnetworks:")[0]
    for name, first in re.findall(r"(?m)^  (\w+):\n    (.*)$", services):
        assert first == "<<: *hardened", name


def test_container_limits_cover_settings() -> None:
    workers = stated(r'WORKER_COUNT: "(\d+)"')
    worker_megabytes = stated(r'WORKER_MEMORY_LIMIT_BYTES: "(\d+)"') / 2**20
    api = COMPOSE.partition("\n  api:\n")[2].partition("\n  redis:\n")[0]
    found = re.search(r"memory: (\d+)m", api)
    assert found
    drawing = MEMORY_LIMIT_BYTES / 2**20
    assert SERVER_MEGABYTES + drawing + workers * worker_megabytes < int(found[1])
    assert stated(r"stop_grace_period: (\d+)s") > Settings.model_fields["shutdown_timeout_seconds"].default


def test_operator_port_is_not_published() -> None:
    port = stated(r"PRIVACY_BOUNDS_OPERATOR_BIND: 0\.0\.0\.0:(\d+)")
    published = re.findall(r'ports: \["(.*?)"\]', COMPOSE)
    assert len(published) == 3
    assert not any(f":{port}" in each for each in published)
    scraped = (ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8")
    assert re.findall(r"targets: \[(.*)\]", scraped) == [f'"api:{port}"']
    assert re.findall(r"port: (\d+)", scraped) == [str(port)]
    assert "\n  operators: {internal: true}\n" in COMPOSE


def test_every_promise_has_named_tests() -> None:
    """Every promise of SECURITY.md has one row in its table of tests.

    Each row names files or functions that exist.
    """
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    promises = text.partition("\n## What the service defends\n")[2].partition("\n## ")[0]
    table = text.partition("\n## Which test holds which promise\n")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| ([A-Z][\w ]+) \| (`.*`) \|$", table)
    assert [name for name, _ in rows] == re.findall(r"(?m)^- \*\*(.+)\.\*\*", promises)
    for name, tests in rows:
        for each in re.findall(r"`([^`]+)`", tests):
            file, _, function = each.partition("::")
            code = (ROOT / file).read_text("utf-8")
            assert re.search(rf"(?m)^(?:async )?def {function or 'test_'}", code), f"{name}: {each}"


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Right, wrong and unknown keys are compared once each by `hmac.compare_digest`, which alone decides."""
    compared: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr(key_ring, "compare_digest", lambda *pair: compared.append(pair) or len(compared) == 2)
    key = make_key(tmp_path, "compute").encode()
    wrong = key[:-1] + (b"A" if key[-1:] != b"A" else b"B")
    unknown = make_key(tmp_path / "other", "compute").encode()

    async def accepted() -> list[bool]:
        ring, found = key_ring.KeyRing(KeyFile(tmp_path), lambda _: None), list[bool]()
        for each in (key, wrong, unknown):
            try:
                await ring.caller(each)
            except Unauthenticated:
                found.append(False)
            else:
                found.append(True)
        return found

    assert asyncio.run(accepted()) == [False, True, False]
    assert [len(one) == len(other) == 32 for one, other in compared] == [True] * 3


def test_statement_is_parsed_after_its_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    monkeypatch.setattr(verification, "parse_statement", lambda text: parsed.append(text) or parse_statement(text))
    with pytest.raises(NotVerified):
        verification.verify_file(bounds_envelope(), key_set(2))
    assert parsed == []
    verification.verify_file(bounds_envelope(), key_set(1))
    assert len(parsed) == 1
