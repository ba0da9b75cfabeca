"""One running application for the tests of the HTTP surface."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from service.main import create_app
from service.settings import Settings


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """Yield a client of an application with default settings, without Redis."""
    with TestClient(create_app(Settings(redis_url=None, log_level="error"))) as client:
        yield client
