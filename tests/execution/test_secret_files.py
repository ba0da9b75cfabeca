"""`PRIVACY_BOUNDS_SEAL_KEY_FILE` and the like: a secret in a file, as containers mount secrets."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from service.secret_files import LONGEST_SECRET_BYTES
from service.settings import ConfigurationError, read_settings, secret_fields
from tests.execution.test_redis_password import PASSWORDS

KEY = "0123456789abcdef0123456789abcdef"
PASSWORD = "PRIVACY_BOUNDS_REDIS_PASSWORD"
SEAL_KEY = "PRIVACY_BOUNDS_SEAL_KEY"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PRIVACY_BOUNDS_"):
            monkeypatch.delenv(name)


def refusal() -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        read_settings()
    return caught.value.args


def test_secret_settings_are_found() -> None:
    assert {"seal_key", "redis_password", "redis_url"} <= set(secret_fields())
    assert "log_level" not in secret_fields()


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_files_hold_what_variables_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    for name, value in ((SEAL_KEY, f"{KEY},{KEY[::-1]}"), (PASSWORD, "p@ss:w/o?r#d%")):
        file = tmp_path / name
        file.write_text(value + end)
        monkeypatch.setenv(f"{name}_FILE", str(file))
    monkeypatch.setenv("PRIVACY_BOUNDS_JOBS_BACKEND", "celery")
    monkeypatch.setenv("PRIVACY_BOUNDS_REDIS_URL", "redis://privacy_bounds@redis:6379/0")
    settings = read_settings()
    assert [key.get_secret_value() for key in settings.seal_key] == [KEY, KEY[::-1]]
    assert settings.redis_password is not None
    assert settings.redis_password.get_secret_value() == "p@ss:w/o?r#d%"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "the file cannot be read (No such file or directory)"),
        (b"", "the file is empty"),
        (b"\n\n", "the file is empty"),
        (b"\xff" * 40, "the file is not UTF-8 text"),
        (b"k" * (LONGEST_SECRET_BYTES + 1), "the file has more than 65536 bytes"),
    ],
    ids=["absent", "empty", "newlines", "binary", "long"],
)
def test_bad_files_are_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "seal_key"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv(f"{SEAL_KEY}_FILE", str(file))
    assert refusal() == (f"{SEAL_KEY}_FILE is not accepted: {reason}.",)


def test_short_key_in_a_file_is_refused_without_printing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("sekrit")
    monkeypatch.setenv(f"{SEAL_KEY}_FILE", str(tmp_path / "key"))
    assert refusal() == (f"{SEAL_KEY} is not accepted: each key must have at least 32 characters.",)


def test_variable_and_file_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(KEY)
    monkeypatch.setenv(f"{SEAL_KEY}_FILE", str(tmp_path / "key"))
    monkeypatch.setenv(SEAL_KEY, KEY)
    assert refusal() == (f"{SEAL_KEY} and {SEAL_KEY}_FILE are both set; set one of them.",)


def test_other_settings_are_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_BOUNDS_LOG_LEVEL_FILE", str(tmp_path))
    assert [sentence.partition(";")[0] for sentence in refusal()] == ["PRIVACY_BOUNDS_LOG_LEVEL_FILE is not a setting"]


def test_shell_and_service_read_the_same_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service and the shell read the same password from a file.

    deploy/redis/start.sh reads it by command substitution.
    """
    file = tmp_path / "password"
    monkeypatch.setenv(f"{PASSWORD}_FILE", str(file))
    for password in random.Random(1).sample(PASSWORDS, 20):
        file.write_text(password + "\n")
        settings = read_settings()
        found = subprocess.run(["sh", "-c", 'printf %s "$(cat "$1")"', "sh", file], capture_output=True, check=True)
        assert settings.redis_password is not None
        assert settings.redis_password.get_secret_value() == found.stdout.decode()
