"""The policy gates for continuous integration run, publish the report, and exit as `privacy-bounds assess` does."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.timeouts import TEST_TIMEOUT

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = ROOT / "deploy/ci/privacy-gate.sh"
ACTION: Final = ROOT / "deploy/ci/github/action.yml"
TEMPLATE: Final = ROOT / "deploy/ci/gitlab/privacy-gate.yml"
COMMAND: Final = f"{shlex.quote(sys.executable)} -m service.cli"
RUN: Final = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
CONTEXT: Final = {"delta": 1e-6, "dataset_size": 60000}


def policy(limit: float, **more: Any) -> dict[str, Any]:
    return {"name": "Gate", "rules": [{"question": {"type": "epsilon", "delta": 1e-6}, "at_most": limit}], **more}


CASES: Final[dict[str, tuple[Any, dict[str, Any], int]]] = {
    "met": (RUN, policy(4.0), 0),
    "violated": (RUN, policy(1.0), 1),
    "refused": (RUN | {"steps": -1}, policy(4.0), 2),
    "not attested": (RUN, policy(4.0, requires="all"), 3),
}


def write_case(name: str, folder: Path) -> int:
    """Write the files of a case into a folder, and return the exit code."""
    run, rules, code = CASES[name]
    for file, content in (("run", run), ("policy", rules), ("context", CONTEXT)):
        (folder / f"{file}.json").write_text(json.dumps(content))
    return code


def shell(command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PRIVACY_BOUNDS": COMMAND} | variables
    words = ["sh", "-c", command]
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=TEST_TIMEOUT
    )


def assert_report(folder: Path, code: int) -> None:
    """Check the published files of an assessment that was not refused."""
    assessment = json.loads((folder / "privacy-report/assessment.json").read_text())
    assert assessment["verdict"] == {0: "met", 1: "violated", 3: "met_if_attested"}[code]
    assert (folder / "privacy-report/report.html").read_text().startswith("<!doctype html>")
    assert "epsilon" in (folder / "privacy-report/report.md").read_text()


@pytest.mark.parametrize("name", CASES)
def test_script_publishes_the_report_and_exits_as_the_command(name: str, tmp_path: Path) -> None:
    folder, code = tmp_path, write_case(name, tmp_path)
    ended = shell(f"sh {SCRIPT} run.json policy.json context.json", folder)
    assert ended.returncode == code, ended.stderr
    if code == 2:
        assert "/mechanism/steps" in ended.stderr
    else:
        assert_report(folder, code)
    assert len(ended.stderr.splitlines()) == {0: 0, 1: 3, 2: 1, 3: 3}[code]


@pytest.mark.parametrize("name", ["violated", "not attested"])
def test_gitlab_script_publishes_the_report_and_exits_as_the_command(name: str, tmp_path: Path) -> None:
    folder, code = tmp_path, write_case(name, tmp_path)
    specification, jobs = yaml.safe_load_all(TEMPLATE.read_text())
    (job,) = jobs.values()
    given = set(specification["spec"]["inputs"])
    assert set(re.findall(r"\$\[\[ inputs\.(\w+) \]\]", TEMPLATE.read_text())) == given
    script = (
        "set -e\n"
        + f'privacy-bounds() {{ {COMMAND} "$@"; }}\n'.replace("privacy-bounds", "privacy_bounds")
        + "\n".join(job["script"]).replace("privacy-bounds ", "privacy_bounds ")
    )
    ended = shell(script, folder, RUN="run.json", POLICY="policy.json", CONTEXT="context.json")
    assert ended.returncode == code, ended.stderr
    if code != 2:
        assert_report(folder, code)
    assert job["allow_failure"]["exit_codes"] == 3
    assert job["artifacts"]["when"] == "always"


@pytest.mark.parametrize(("name", "missing"), [("met", "fail"), ("not attested", "fail"), ("not attested", "warn")])
def test_github_action_publishes_the_report_and_exits_as_the_command(name: str, missing: str, tmp_path: Path) -> None:
    folder, code = tmp_path, write_case(name, tmp_path)
    action = yaml.safe_load(ACTION.read_text())
    assess, publish = action["runs"]["steps"]
    assert set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", ACTION.read_text())) == set(action["inputs"])
    script = assess["run"].replace("${{ github.action_path }}/..", str(SCRIPT.parent))
    summary = folder / "summary.md"
    variables = {"RUN": "run.json", "POLICY": "policy.json", "CONTEXT": "context.json", "MISSING": missing}
    ended = shell(f"set -e\n{script}", folder, GITHUB_STEP_SUMMARY=str(summary), **variables)
    assert ended.returncode == (0 if (code, missing) == (3, "warn") else code), ended.stderr
    if code != 2:
        assert_report(folder, code)
        assert summary.read_text() == (folder / "privacy-report/report.md").read_text()
    assert publish["if"] == "always()"
    assert "--network none" in assess["env"]["PRIVACY_BOUNDS"]
