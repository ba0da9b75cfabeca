"""Metrics of a worker: on an address that requires credentials, a key with the scope `metrics` reads them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.server.access import metrics_guard
from service.settings import Settings
from service.telemetry.metrics_server import serve_metrics
from tests.access.keys import bearer, make_key
from tests.conftest import port_of, reserved_port
from tests.timeouts import TEST_TIMEOUT


def statuses(settings: Settings, *sent: Any, path: str = "/metrics") -> list[int]:
    with (
        serve_metrics(settings.operator_address, lambda: b"counts 1\n", metrics_guard(settings)),
        httpx2.Client(base_url=f"http://{settings.operator_bind}", timeout=TEST_TIMEOUT) as client,
    ):
        return [client.get(path, headers=each).status_code for each in sent]


@pytest.mark.parametrize(("required", "expected"), [(None, [200] * 5), (True, [401, 401, 403, 200, 401])])
def test_metrics_need_their_scope_where_credentials_are_required(
    tmp_path: Path, required: bool | None, expected: list[int]
) -> None:
    wrong = [("Authorization", b"Basic \xe9")]
    with closing(reserved_port()) as place:
        bind = f"127.0.0.1:{port_of(place)}"
        settings = Settings(operator_bind=bind, require_authentication=required, data_folder=tmp_path)
        keys = [bearer(make_key(tmp_path, scope)) for scope in ("admin", "metrics")]
        ended = bearer(make_key(tmp_path, "metrics", expires_in_seconds=-1))
        assert statuses(settings, {}, wrong, *keys, ended) == expected
        assert statuses(settings, {}, path="/livez") == [200]
