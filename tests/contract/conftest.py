"""One application for all tests of the documentation and the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from service.main import create_app
from service.settings import Settings
from tests.signing.statements import pem, write


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Yield a client of a service that signs, as a page of the guide shows."""
    path = write(tmp_path_factory.mktemp("keys"), "keys.pem", pem(1))
    with TestClient(create_app(Settings(signing_keys=Path(path)))) as client:
        yield client
