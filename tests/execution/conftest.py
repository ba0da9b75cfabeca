"""Fixtures for the tests of this package."""

from __future__ import annotations

import pytest

from service.execution import redis_client
from service.telemetry.metrics import Metrics
from tests.execution.fakes import make_metrics
from tests.timeouts import TEST_TIMEOUT


@pytest.fixture
def metrics() -> Metrics:
    return make_metrics()


@pytest.fixture(autouse=True)
def _redis_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the probe timeout, so that a slow Redis on a busy machine does not count as unavailable."""
    monkeypatch.setattr(redis_client, "PROBE_TIMEOUT_SECONDS", TEST_TIMEOUT)
