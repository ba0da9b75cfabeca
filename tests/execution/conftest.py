"""What tests of this room share."""

from __future__ import annotations

import pytest

from service.telemetry.metrics import Metrics
from tests.execution.fakes import make_metrics


@pytest.fixture
def metrics() -> Metrics:
    return make_metrics()
