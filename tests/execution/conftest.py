"""What tests of this room share."""

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
    """A Redis that answers is not away, however busy the machine is."""
    monkeypatch.setattr(redis_client, "PROBE_TIMEOUT_SECONDS", TEST_TIMEOUT)
