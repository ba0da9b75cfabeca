"""Earlier names of settings, which are accepted as aliases."""

from __future__ import annotations

import pytest

from service.settings import ConfigurationError, Settings, read_settings

NEW, OLD = "PRIVACY_BOUNDS_REDIS_EXPENSIVE_TIMEOUT_SECONDS", "PRIVACY_BOUNDS_REDIS_DEAR_TIMEOUT_SECONDS"


@pytest.fixture(autouse=True)
def _without_either_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (NEW, OLD):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", [NEW, OLD])
def test_either_name_sets_the_timeout(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "0.5")
    assert read_settings().redis_expensive_timeout_seconds == 0.5


def test_new_name_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NEW, "0.5")
    monkeypatch.setenv(OLD, "2")
    assert read_settings().redis_expensive_timeout_seconds == 0.5


def test_field_name_sets_the_timeout_in_python() -> None:
    assert Settings(redis_expensive_timeout_seconds=0.5).redis_expensive_timeout_seconds == 0.5


@pytest.mark.parametrize("name", [NEW, OLD])
def test_invalid_timeout_names_the_setting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "-1")
    with pytest.raises(ConfigurationError) as raised:
        read_settings()
    assert raised.value.args == (f"{NEW} is not accepted: input should be greater than 0.",)
