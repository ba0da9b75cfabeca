"""Schemathesis against a live server: what the document promises is what happens, for a minute at most."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.system.test_serving import served


def test_the_live_service_keeps_what_its_document_promises(tmp_path: Path) -> None:
    # Dear requests are refused, so that the minute goes to many requests rather than to a few computations.
    with served(tmp_path, log_level="error", max_cost="3000000", time_limit_seconds="60") as client:
        command = [
            str(Path(sys.executable).parent / "schemathesis"),
            "run",
            str(client.base_url.join("/openapi.json")),
            "--phases=examples,coverage,fuzzing",
            "--checks=all",
            # What fits the schema may still be refused: rules across fields, combinations without a theorem, costs.
            "--exclude-checks=positive_data_acceptance",
            "--max-examples=25",
            "--max-time=50",
            "--request-timeout=60",
            "--max-response-time=60",
            "--seed=1",
            "--workers=1",
            "--no-color",
        ]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240)
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    assert (tmp_path / "server.log").read_text() == "", "an error, or a line that is no event"
