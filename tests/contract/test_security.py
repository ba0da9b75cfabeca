"""What SECURITY.md says of defaults and of the container. Its other promises have tests where they are kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service import cli
from service.settings import Settings
from service.web.drawing import MEMORY_LIMIT_BYTES

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text("utf-8")
SERVER_MEGABYTES = 900
"""With as many of the longest uploads as it takes at once, and everything that it keeps."""


def stated(pattern: str) -> int:
    found = re.findall(pattern, COMPOSE)
    assert len(found) == 1, pattern
    return int(found[0])


def test_it_listens_to_this_machine_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[str] = []
    monkeypatch.setattr(cli, "serve", lambda host, _: hosts.append(host) or 0)
    assert cli.main(["serve"]) == cli.main(["serve", "--host", "0.0.0.0"]) == 0
    assert hosts == ["127.0.0.1", "0.0.0.0"]


def test_nobody_is_believed_about_addresses_unless_named() -> None:
    assert Settings.model_fields["trusted_proxies"].default == ""


def test_the_container_has_a_user_of_its_own_and_no_rights() -> None:
    final_stage = (ROOT / "Dockerfile").read_text("utf-8").rpartition("\nFROM ")[2]
    assert re.findall(r"(?m)^USER (.*)$", final_stage) == ["10001:10001"]
    hardened = COMPOSE.partition("x-hardened: &hardened")[2].partition("\nservices:")[0]
    for line in ("read_only: true", "cap_drop: [ALL]", 'security_opt: ["no-new-privileges:true"]'):
        assert f"\n  {line}\n" in hardened
    services = COMPOSE.partition("\nservices:\n")[2].partition("\nnetworks:")[0]
    for name, first in re.findall(r"(?m)^  (\w+):\n    (.*)$", services):
        assert first == "<<: *hardened", name


def test_the_container_has_room_and_time_for_what_the_settings_allow() -> None:
    workers = stated(r'WORKER_COUNT: "(\d+)"')
    worker_megabytes = stated(r'WORKER_MEMORY_LIMIT_BYTES: "(\d+)"') / 2**20
    api = COMPOSE.partition("\n  api:\n")[2].partition("\n  redis:\n")[0]
    found = re.search(r"memory: (\d+)m", api)
    assert found
    drawing = MEMORY_LIMIT_BYTES / 2**20
    assert SERVER_MEGABYTES + drawing + workers * worker_megabytes < int(found[1])
    assert stated(r"stop_grace_period: (\d+)s") > Settings.model_fields["shutdown_timeout_seconds"].default
