"""`privacy-bounds doctor`: each fault of a deployment is found, with a remedy, and a healthy one has none."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from service.command.doctor import run_doctor
from service.command.main import main as cli
from service.doctor import machine, secrets
from service.doctor.redis import check_anonymous_access
from service.execution.entry_mac import EntryAuthenticator
from service.execution.quarantine import FILE_NAME as QUARANTINE_NAME
from service.execution.quarantine import ResultQuarantine
from service.jobs.celery.store import RedisStore
from service.jobs.local.jobs_file import FILE_NAME
from service.jobs.local.store import SqliteStore
from service.jobs.repository import Quota
from service.settings import Settings
from tests.conftest import REDIS_PASSWORD, ComposedRedis, RedisServer
from tests.signing.statements import keys, pem, write
from tests.system.jobs import SEAL_KEY, new_job

KEY = "0123456789abcdef0123456789abcdef"
X25519_PEM = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
QUOTA = Quota(10, 2**20)
Examine = Callable[..., dict[str, tuple[str, str]]]


@pytest.fixture
def examine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, tuple[str, str]]]:
    for name in list(os.environ):
        if name.startswith("PRIVACY_BOUNDS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PRIVACY_BOUNDS_DATA_FOLDER", str(tmp_path / "data"))

    def run(**settings: str) -> dict[str, tuple[str, str]]:
        """Return the worst finding of each check. No output contains a secret, and each fault has a remedy."""
        for name, value in settings.items():
            monkeypatch.setenv(f"PRIVACY_BOUNDS_{name.upper()}", value)
        code = run_doctor(None, as_json=True)
        out = capsys.readouterr().out
        assert all(each not in out for each in (REDIS_PASSWORD, KEY, SEAL_KEY, "sekrit"))
        told: dict[str, Any] = json.loads(out)
        found: dict[str, tuple[str, str]] = {}
        order = ("ok", "warning", "failed")
        for each in told["findings"]:
            assert each["status"] == "ok" or each["remedy"], each
            before = found.get(each["check"], ("ok", ""))
            if order.index(each["status"]) >= order.index(before[0]):
                found[each["check"]] = each["status"], each["sentence"]
        is_healthy = all(status != "failed" for status, _ in found.values())
        assert (told["healthy"], code) == (is_healthy, 0 if is_healthy else 1)
        return found

    return run


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[ComposedRedis]:
    server = ComposedRedis(tmp_path)
    server.start()
    yield server
    server.stop()


def failed(found: dict[str, tuple[str, str]]) -> set[str]:
    return {check for check, (status, _) in found.items() if status == "failed"}


def test_default_settings_are_healthy(examine: Examine) -> None:
    found = examine()
    assert failed(found) == set()
    assert {"versions", "settings", "numbers", "disk", "data folder", "redis", "seal key", "memory"} <= set(found)


def test_lines_for_people_name_the_remedy(examine: Examine, capsys: pytest.CaptureFixture[str]) -> None:
    examine(seal_key="published-and-so-of-no-use-to-anybody")
    assert run_doctor(None, as_json=False) == 1
    out = capsys.readouterr().out
    assert "FAILED   seal key" in out
    assert "-> Make a random key: openssl rand -hex 32." in out
    assert "The deployment is not healthy: 1 failed, " in out


def test_invalid_settings_are_found_and_the_rest_is_checked(examine: Examine) -> None:
    found = examine(max_body_bytes="0", seal_key="sekrit")
    assert failed(found) == {"settings"}
    assert found["numbers"][0] == "ok"


@pytest.mark.parametrize(
    ("key", "status"), [("a" * 40, "warning"), (f"{KEY},{KEY}", "warning"), (f"{KEY},{SEAL_KEY}", "ok")]
)
def test_weak_seal_keys_are_found(examine: Examine, key: str, status: str) -> None:
    assert examine(seal_key=key)["seal key"][0] == status


@pytest.mark.parametrize(("mode", "status"), [(0o644, "warning"), (0o660, "warning"), (0o440, "ok"), (0o400, "ok")])
def test_files_of_secrets_that_others_may_read_are_found(
    examine: Examine, tmp_path: Path, mode: int, status: str
) -> None:
    file = tmp_path / "seal_key"
    file.write_text(KEY)
    file.chmod(mode)
    assert examine(seal_key_file=str(file))["secret files"][0] == status


def test_redis_of_the_compose_file_is_healthy(examine: Examine, composed: ComposedRedis) -> None:
    found = examine(redis_url=composed.url, seal_key=SEAL_KEY, jobs_backend="celery", job_stored_bytes="268435456")
    assert failed(found) == set()
    for check in (
        "redis user",
        "redis access",
        "redis memory",
        "redis persistence",
        "redis transport",
        "clock",
        "jobs",
    ):
        assert found[check][0] == "ok", found[check]
    assert found["workers"] == ("warning", "No worker is running: jobs are accepted and wait.")
    with closing(redis.Redis.from_url(composed.url)) as client:
        assert list(client.scan_iter("*doctor*")) == []


def test_open_redis_is_found(examine: Examine, own_redis: RedisServer) -> None:
    """A Redis that is open to everybody is found.

    Its settings are those of its package: no password, all rights, no limit, no append-only file.
    """
    found = examine(redis_url=own_redis.url, seal_key=SEAL_KEY, jobs_backend="celery")
    assert failed(found) == {"redis persistence"}
    for check in ("redis user", "redis access", "redis memory"):
        assert found[check][0] == "warning", found[check]
    with closing(redis.Redis.from_url(own_redis.url)) as client:
        client.config_set("maxmemory", "100mb")
        client.config_set("maxmemory-policy", "allkeys-lru")
    assert failed(examine()) == {"redis persistence", "redis memory"}


def test_open_redis_beyond_this_machine_is_a_failure(own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.doctor.redis._is_local", lambda _: False)
    assert [each.status for each in check_anonymous_access(own_redis.url)] == ["failed"]


def test_redis_that_is_away_or_refuses_is_found(examine: Examine, composed: ComposedRedis) -> None:
    found = examine(redis_url=composed.url.replace(REDIS_PASSWORD, "sekrit"))
    assert found["redis"] == ("failed", "Redis does not answer: AuthenticationError.")
    composed.kill()
    found = examine(redis_url=composed.url)
    assert found["redis"] == ("failed", "Redis does not answer: ConnectionError.")


class _PoorRedis(ComposedRedis):
    """A server whose user lacks permissions."""

    @property
    def command(self) -> list[str]:
        found = super().command
        place = self.directory / "redis.conf"
        place.write_text(
            f"{place.read_text()}user poor on nopass ~privacy_bounds:* -@all +ping +get +info +time +del\n"
        )
        return found


def test_missing_permissions_are_named(examine: Examine, tmp_path: Path) -> None:
    server = _PoorRedis(tmp_path)
    server.start()
    try:
        found = examine(redis_url=f"redis://poor:x@127.0.0.1:{server.port}/0")
        assert found["redis user"] == ("failed", "The user of Redis may not use SET, EVAL, MULTI.")
    finally:
        server.stop()


def test_jobs_of_another_key_are_found(examine: Examine, composed: ComposedRedis) -> None:
    with closing(RedisStore(composed.url, EntryAuthenticator([SEAL_KEY]))) as store:
        store.add(new_job(), b"{}", None, b"", QUOTA, 1)
        store.announce("worker", "another version")
    found = examine(redis_url=composed.url, seal_key=KEY, jobs_backend="celery", job_stored_bytes="268435456")
    assert found["jobs"] == ("failed", "1 of 1 active jobs are not sealed with a key of this machine.")
    assert found["workers"][0] == "warning"
    assert examine(seal_key=f"{KEY},{SEAL_KEY}")["jobs"] == ("ok", "1 jobs wait or run, and all are readable.")


def test_who_may_call_is_checked(examine: Examine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert examine()["authentication"][0] == "ok"
    assert examine(require_authentication="false")["authentication"] == ("warning", "Requests need no credentials.")
    found = examine(require_authentication="true")
    assert found["authentication"][0] == "failed"
    assert cli(["keys", "create", "--scope", "compute", "--expires", "3d"]) == 0
    key = capsys.readouterr().out.strip()
    found = examine()
    assert found["authentication"] == ("warning", "1 API keys end soon, the first in 3 days.")
    assert key not in str(found)
    assert cli(["keys", "create", "--scope", "compute"]) == 0
    capsys.readouterr()
    found = examine(operator_bind="127.0.0.1:9100")
    assert found["authentication"][1].startswith("No API key has the scope metrics")
    (tmp_path / "data" / "keys.json").write_text("no keys")
    assert examine()["authentication"][0] == "failed"


def test_data_folder_that_cannot_be_used_is_found(examine: Examine, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")
    assert examine()["data folder"][0] == "failed"


@pytest.mark.parametrize(
    ("content", "mode", "sentence"),
    [
        (None, 0o600, "cannot be read: no such file"),
        (pem(1), 0o644, "others may read"),
        (b"no key", 0o600, "no PEM block"),
        (X25519_PEM, 0o600, "of type X25519, and only Ed25519 signs"),
    ],
)
def test_unusable_signing_keys_are_found(
    examine: Examine, tmp_path: Path, content: bytes | None, mode: int, sentence: str
) -> None:
    file = tmp_path / "signing.pem"
    if content is not None:
        file.write_bytes(content)
        file.chmod(mode)
    found = examine(signing_keys=str(file))
    assert failed(found) == {"signing keys"}
    assert sentence in found["signing keys"][1]


def test_signing_keys_are_counted(examine: Examine, tmp_path: Path) -> None:
    assert examine()["signing keys"] == ("ok", "No signing keys are set: answers are not signed.")
    file = Path(write(tmp_path, "signing.pem", pem(1) + pem(2)))
    found = examine(signing_keys=str(file))
    assert found["signing keys"] == ("ok", f"Key {keys(1).id} signs, and 2 public keys are published.")


def test_quarantine_is_checked(examine: Examine, tmp_path: Path) -> None:
    path = tmp_path / "data" / QUARANTINE_NAME
    assert examine()["quarantine"] == ("ok", "No result is in quarantine.")
    path.mkdir(parents=True)
    found = examine()
    assert failed(found) == {"quarantine"}
    assert f"{path}: Is a directory" in found["quarantine"][1]
    path.rmdir()
    path.write_text('\n{"digest": "sha25')
    ResultQuarantine(path).add("sha256:" + "1" * 64, "epsilon: two engines")
    found = examine()
    assert failed(found) == set()
    assert found["quarantine"] == ("warning", "Two engines disagree about 1 results, which are in quarantine.")
    path.write_text('{"digest": "sha25\n')
    assert examine()["quarantine"][1].startswith(f"1 lines of {path} are damaged")


def test_damaged_newer_and_future_files_of_jobs_are_found(examine: Examine, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with closing(SqliteStore(folder)) as store:
        store.add(new_job(), b"{}", None, b"", QUOTA, 1)
    file = folder / FILE_NAME
    before = file.read_bytes()
    assert failed(examine()) == set()
    assert file.read_bytes() == before
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE jobs SET updated = ?", (time.time() + 10_800,))
        database.commit()
    found = examine()
    assert found["clock"] == ("failed", "By this clock, the file of jobs was last changed 3 hours in the future.")
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 99")
    assert "newer version" in examine()["jobs"][1]
    file.write_bytes(b"no database" * 1_000)
    assert failed(examine()) == {"jobs"}


def test_memory_limit_below_the_settings_is_found(tmp_path: Path) -> None:
    file = tmp_path / "memory.max"
    settings = Settings(worker_count=2, worker_memory_limit_bytes=768 * 2**20)
    for text, status in (("max", "ok"), (str(2**30), "warning"), (str(3840 * 2**20), "ok"), (str(2**63 - 4096), "ok")):
        file.write_text(text)
        assert [each.status for each in machine.check_memory(settings, (file,))] == [status], text


def test_published_secrets_are_those_of_earlier_compose_files() -> None:
    settings = Settings.model_validate({"redis_password": "privacy-bounds"})
    assert [each.status for each in secrets.check_redis_password(settings)] == ["failed"]
