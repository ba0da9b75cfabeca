"""One service with default settings, for all tests that do not change it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from tests.system.running_server import running_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """Yield a running service. Modules that need other limits define a fixture of this name."""
    with running_server(tmp_path_factory.mktemp("server")) as client:
        yield client
