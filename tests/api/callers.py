"""An application whose callers have credentials, and the keys of groups."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from starlette.testclient import TestClient

from service.access.api_keys import KEY_TEXT
from service.main import create_app
from service.settings import Settings
from tests.access.keys import bearer, make_key

KEYS: Final = Path(tempfile.mkdtemp(prefix="keys-"))
"""Folder of the keys of all groups."""
atexit.register(shutil.rmtree, KEYS, ignore_errors=True)


@contextmanager
def closed_application(**values: Any) -> Generator[TestClient]:
    """Run an application with authentication and its own data folder, and yield a client without credentials."""
    credentials("first")
    with tempfile.TemporaryDirectory() as folder:
        for file in KEYS.glob("keys.*"):
            (Path(folder) / file.name).symlink_to(file)
        fixed = {"redis_url": None, "log_level": "error", "require_authentication": True, "keys_store": "file"}
        settings = Settings.model_validate({**fixed, "data_folder": folder, **values})
        with TestClient(create_app(settings)) as client:
            yield client


def credentials(group: str) -> dict[str, str]:
    """Return the header with the API key of a group."""
    return bearer(key_of(group))


@cache
def key_of(group: str) -> str:
    """Return the API key of a group, which may call everything but the routes of operators."""
    return make_key(KEYS, "compute", "jobs", "metrics", name="robot", group=group)


def key_id_of(group: str) -> str:
    """Return the id of the key of a group."""
    found = KEY_TEXT.fullmatch(key_of(group).encode())
    assert found
    return found[1].decode()
