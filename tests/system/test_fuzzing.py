"""Schemathesis against a live server: the published document holds, in a fixed number of requests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.access.caller import SCOPES
from tests.access.keys import make_key
from tests.slow_marker import thorough
from tests.system.running_server import running_server
from tests.timeouts import TEST_TIMEOUT


@pytest.mark.parametrize(
    ("examples", "sent"), [thorough(3, "nothing"), thorough(12, "nothing"), thorough(4, "key"), thorough(4, "no key")]
)
def test_live_service_conforms_to_its_document(tmp_path: Path, examples: int, sent: str) -> None:
    """A live service conforms to its document for a fixed number of requests by Schemathesis.

    `sent` says what requests carry: nothing for a service that is open, or a key or none for a service that is closed.
    """
    closed = {} if sent == "nothing" else {"require_authentication": "true"}
    key = make_key(tmp_path / "data", *SCOPES) if closed else ""
    # Expensive requests are rejected, so that the time goes to many requests instead of a few computations.
    with running_server(
        tmp_path, log_level="error", max_cost="3000000", time_limit_seconds=str(TEST_TIMEOUT), **closed
    ) as client:
        command = [
            str(Path(sys.executable).parent / "schemathesis"),
            "run",
            str(client.base_url.join("/openapi.json")),
            # The other phases build every combination of nested alternatives before the first request, which takes
            # minutes for the mechanisms of this document. With --max-time they end as a success that tested nothing.
            "--phases=fuzzing",
            "--checks=all",
            # A body that fits the schema may still be rejected: rules across fields, combinations without a theorem,
            # costs.
            "--exclude-checks=positive_data_acceptance",
            f"--max-examples={examples}",
            f"--request-timeout={TEST_TIMEOUT:g}",
            f"--max-response-time={TEST_TIMEOUT:g}",  # Otherwise ten seconds, for which a request may prefer to wait.
            "--seed=1",
            "--workers=1",
            "--no-color",
            *(["--header", f"Authorization: Bearer {key}"] if sent == "key" else []),
        ]
        run = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=10 * TEST_TIMEOUT
        )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    counted = re.search(r"Selected: (\d+)/(\d+)\s+Tested: (\d+)\n", run.stdout)
    assert counted is not None, run.stdout[-8000:]
    assert len(set(counted.groups())) == 1, "operations were left out"
    assert (tmp_path / "server.log").read_text() == "", "an error, or a line that is no event"
