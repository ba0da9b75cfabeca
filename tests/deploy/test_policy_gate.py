"""The policy gates for continuous integration run, publish the report, and exit as `privacy-bounds assess` does."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.slow_marker import thorough
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
    """Write the files of the case with this name into a folder, and return its expected exit code."""
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


@pytest.mark.parametrize("name", ["not attested", *map(thorough, ("met", "violated", "refused"))])
def test_script_publishes_the_report_and_exits_as_the_command(name: str, tmp_path: Path) -> None:
    folder, code = tmp_path, write_case(name, tmp_path)
    ended = shell(f"sh {SCRIPT} run.json policy.json context.json", folder)
    assert ended.returncode == code, ended.stderr
    if code == 2:
        assert "/mechanism/steps" in ended.stderr
    else:
        assert_report(folder, code)
    assert len(ended.stderr.splitlines()) == {0: 0, 1: 3, 2: 1, 3: 3}[code]


@pytest.mark.parametrize("name", [thorough("violated"), thorough("not attested")])
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


@pytest.mark.parametrize(
    ("name", "missing"), [thorough("met", "fail"), thorough("not attested", "fail"), thorough("not attested", "warn")]
)
def test_github_action_publishes_the_report_and_exits_as_the_command(name: str, missing: str, tmp_path: Path) -> None:
    folder, code = tmp_path, write_case(name, tmp_path)
    action = yaml.safe_load(ACTION.read_text())
    assess, publish = action["runs"]["steps"]
    assert set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", ACTION.read_text())) == set(action["inputs"])
    script = assess["run"]
    assert "${{" not in script, "an input would be read as shell code"
    summary = folder / "summary.md"
    variables = {"RUN": "run.json", "POLICY": "policy.json", "CONTEXT": "context.json", "MISSING": missing}
    variables["GITHUB_ACTION_PATH"] = str(ACTION.parent)
    ended = shell(f"set -e\n{script}", folder, GITHUB_STEP_SUMMARY=str(summary), **variables)
    assert ended.returncode == (0 if (code, missing) == (3, "warn") else code), ended.stderr
    if code != 2:
        assert_report(folder, code)
        assert summary.read_text() == (folder / "privacy-report/report.md").read_text()
    assert publish["if"] == "always()"
    assert assess["env"]["PRIVACY_BOUNDS_IMAGE"] == "${{ inputs.image }}"


CHARACTERS: Final = "a .-{}'\"$`\\;&|*?[]()<>!#~=\n\t\u00e9"


def drawn_name(drawn: random.Random) -> str:
    """Return a random file name of characters that shells and parsers of options treat specially."""
    return "".join(drawn.choices(CHARACTERS, k=drawn.randint(1, 12))).strip(".") + ".json"


@pytest.mark.parametrize("seed", [*map(thorough, range(4))])
def test_any_file_name_is_taken(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    folder = tmp_path / f"work {drawn_name(drawn)}"
    folder.mkdir()
    names = [f"{start}{drawn_name(drawn)}" for start in drawn.sample(["-", "--", "{", " ", "$(exit)", ""], 3)]
    for name, content in zip(names, (RUN, policy(1.0), CONTEXT), strict=True):
        (folder / name).write_text(json.dumps(content))
    report = f"-{drawn_name(drawn)}"
    words = shlex.join(["sh", str(SCRIPT), *names])
    ended = shell(words, folder, PRIVACY_REPORT_FOLDER=report)
    assert ended.returncode == 1, (names, ended.stderr)
    assert len(ended.stderr.splitlines()) == 3
    assert sorted(each.name for each in folder.iterdir()) == sorted([*names, report])
    assert json.loads((folder / report / "assessment.json").read_text())["verdict"] == "violated"


@pytest.mark.parametrize("image", ["registry.example.com/privacy-bounds:1", "--privileged", "a -v /:/host b", "$(id)"])
def test_image_is_one_argument_behind_all_options(image: str, tmp_path: Path) -> None:
    """The name of the image is one argument behind all options of `docker`.

    A `docker` of the test writes down its arguments. The folder has a space in its name.
    """
    folder = tmp_path / "my work"
    folder.mkdir()
    write_case("met", folder)
    program = tmp_path / "docker"
    program.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each" >> "$0.log"; done\nexit 125\n')
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    ended = shell(f"sh {SCRIPT} run.json policy.json", folder, PRIVACY_BOUNDS_IMAGE=image, PATH=path)
    assert ended.returncode == 125
    sent = (tmp_path / "docker.log").read_text().splitlines()
    limits = ["--network", "none", "--user", f"{os.getuid()}:{os.getgid()}"]
    options = ["run", "--rm", *limits, "--volume", f"{folder}:/work:ro", "--workdir", "/work", "--"]
    assert sent == [*options, image, "privacy-bounds", "assess", "run.json", "--policy", "policy.json", "--json"]


@pytest.mark.thorough
def test_refused_run_does_not_publish_an_older_report(tmp_path: Path) -> None:
    code = write_case("met", tmp_path)
    met = shell(f"sh {SCRIPT} run.json policy.json context.json", tmp_path)
    assert (met.returncode, met.stderr) == (code, "")
    assert_report(tmp_path, code)
    code = write_case("refused", tmp_path)
    refused = shell(f"sh {SCRIPT} run.json policy.json context.json", tmp_path)
    assert refused.returncode == code
    assert "/mechanism/steps" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert list((tmp_path / "privacy-report").iterdir()) == []


def test_full_disk_is_no_violation_of_the_policy(tmp_path: Path) -> None:
    """A full disk gives the exit code 2, because 1 says that the policy is not met, and nothing else."""
    write_case("met", tmp_path)
    ended = shell(f"{COMMAND} assess run.json --policy policy.json --context context.json > /dev/full", tmp_path)
    assert ended.returncode == 2
    assert ended.stderr == "privacy-bounds: cannot write the output: No space left on device\n"
