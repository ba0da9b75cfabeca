"""States that the current versions of the libraries write, compared with the stored test states, and the cost of
reading them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from api_schemas.bounds import BoundsRequest
from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import median_cpu_seconds
from service.importers.catalogue import import_state, validate_with_imports
from service.parsing import parse_request, validate_plain

FIXTURES: Final = Path(__file__).parents[2] / "tests" / "importers" / "fixtures"
RUN: Final = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
LONG: Final = [[1.0 + place / 1e5, 0.01, 3] for place in range(10_000)]


def measure() -> Section:
    section = Section("Intake")
    rows: list[tuple[str, int, int, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "benchmarks.peers.states", folder], check=True, stderr=subprocess.DEVNULL)
        for path in sorted(Path(folder).glob("*.json")):
            now, known = _states(path), _states(FIXTURES / path.name)
            same = sum(_content(state) == _content(known[name]) for name, state in now.items() if name in known)
            rows.append((path.stem, len(now), same, f"{sum(map(_is_read, now.values()))} read, others refused"))
            what = f"states of {path.stem}, written by the library in this run"
            section.reaches.append(Reach(what, "those of the tests", f"{same} of {len(now)}", same == len(now)))
    section.tables = [
        Table("States written now", ("library", "states", "as in the tests", "outcome"), rows),
        Table("Reading", ("request", "CPU"), _times()),
    ]
    return section


def _states(path: Path) -> dict[str, Any]:
    states: dict[str, Any] = json.loads(path.read_text("utf-8"))["states"]
    return states


def _content(state: dict[str, Any]) -> Any:
    return [state.get(form) for form in ("content", "listed", "event")]


def _is_read(state: dict[str, Any]) -> bool:
    try:
        import_state("detect", state["content"])
    except ValidationError:
        return False
    return True


def _times() -> list[tuple[str, str]]:
    def asked(mechanism: Any) -> bytes:
        return json.dumps({"mechanism": mechanism, "questions": [{"type": "advantage"}]}).encode()

    bodies = {
        "a mechanism, without readers": (asked(RUN), validate_plain),
        "a mechanism": (asked(RUN), validate_with_imports),
        "a history of one row": (asked({"type": "imported", "content": LONG[:1]}), validate_with_imports),
        "a history of 10 000 rows": (asked({"type": "imported", "content": LONG}), validate_with_imports),
    }
    return [
        (
            name,
            milliseconds(
                median_cpu_seconds(lambda body=body, validate=validate: parse_request(BoundsRequest, body, validate))
            ),
        )
        for name, (body, validate) in bodies.items()
    ]
