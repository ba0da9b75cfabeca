"""`PRIVACY_BOUNDS_REDIS_PASSWORD`: any password, as a setting of its own or in the address of Redis."""

from __future__ import annotations

import random
import string
from typing import Any

import pytest
from kombu.utils.url import parse_url
from redis.connection import parse_url as parse_redis_url

from service.settings import ConfigurationError, Settings, read_settings
from tests.slow_marker import thorough

PASSWORDS = [
    "p@ss:w/o?r#d%",
    "%40",
    "a b+c&d=e",
    "ü€😀",
    "[::1]",
    *("".join(random.Random(seed).choices(string.printable[:95], k=24)) for seed in range(200)),
]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVACY_BOUNDS_REDIS_URL", raising=False)


def joined(**given: str) -> str:
    url = Settings.model_validate(given).redis_url
    assert url is not None
    return url.get_secret_value()


@pytest.mark.parametrize(
    "place", ["redis://{}redis:6379/0", "rediss://{}[::1]:6380/3", "unix://{}/run/redis.sock?db=2"]
)
@pytest.mark.parametrize("passwords", [PASSWORDS[:45], thorough(PASSWORDS)], ids=len)
def test_every_password_reaches_redis_and_celery(place: str, passwords: list[str]) -> None:
    for password in passwords:
        url = joined(redis_password=password, redis_url=place.format("privacy_bounds@"))
        found: dict[str, Any] = dict(parse_redis_url(url))
        assert (found["username"], found["password"]) == ("privacy_bounds", password)
        plain: dict[str, Any] = dict(parse_redis_url(place.format("")))
        assert {name: found[name] for name in plain} == plain
        assert parse_url(url)["password"] == password
        alone = joined(redis_password=password, redis_url=place.format(""))
        assert parse_redis_url(alone)["password"] == password


def test_address_with_password_is_unchanged() -> None:
    url = "redis://user:p%40ss@redis:6379/0"
    assert joined(redis_url=url) == url


def test_two_passwords_are_rejected_without_printing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_BOUNDS_REDIS_URL", "redis://user:sekrit@redis:6379/0")
    monkeypatch.setenv("PRIVACY_BOUNDS_REDIS_PASSWORD", "sekrit2")
    with pytest.raises(ConfigurationError) as caught:
        read_settings()
    [sentence] = caught.value.args
    assert sentence.startswith("PRIVACY_BOUNDS_REDIS_URL is not accepted: ")
    assert "PRIVACY_BOUNDS_REDIS_PASSWORD" in sentence
    assert "sekrit" not in sentence
