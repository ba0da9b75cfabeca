"""Output of the command line: tables rounded to the safe side, CSV with all digits, exact bytes for programs."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from api_schemas.examples import response_examples
from service.command import main as cli
from service.rendering.tables import shell
from tests.slow_marker import thorough
from tests.timeouts import TEST_TIMEOUT

RUN = {"type": "gaussian", "noise_multiplier": 2.0}
REQUEST = {
    "mechanism": RUN,
    "questions": [{"type": "advantage"}, {"type": "trade_off", "false_positive_rates": [0.01]}],
}
HISTORY = {"history": [[1.1, 0.004, 3000], [0.9, 0.004, 1000]], "mechanism": "prv"}
EXAMPLES = [
    pytest.param(answer, id=f"{operation}-{name}")
    for operation, answers in response_examples().items()
    for name, answer in answers.items()
    if "digest" in answer
]


def enclosures(value: Any) -> list[tuple[Any, Any, Any]]:
    """Return every number with bounds in a response, except columns, type II errors, and refuting attacks."""
    if isinstance(value, list):
        return [found for each in value for found in enclosures(each)]
    if not isinstance(value, dict):
        return []
    own = (
        [tuple(value[end] for end in ("value", "lower", "upper"))] if {"value", "lower", "upper"} <= set(value) else []
    )
    inner = [
        found
        for name, each in value.items()
        if name not in shell.OMITTED
        and not (name == "type_two_error" and "power" in value)
        and not (name == "attack" and "claimed" in value)
        for found in enclosures(each)
    ]
    return [each for each in own if not isinstance(each[0], list)] + inner


@pytest.mark.parametrize("response", EXAMPLES)
def test_every_number_has_a_row_with_valid_bounds(response: dict[str, Any]) -> None:
    rows = shell.number_rows(response)
    if "curves" not in response:
        sent = [tuple(None if end is None else float(end) for end in each) for each in enclosures(response)]
        assert sorted(map(str, sent)) == sorted(str(row[1:4]) for row in rows)
    printed = shell.to_table(response)
    for row in rows[: shell.MOST_ROWS]:
        shown = shell._safe_value(row)
        assert shown in printed
        if row.lower is None or row.upper is None:
            assert shown.startswith("~")
        elif row.value == row.upper:
            assert float(shown) >= row.upper
        else:
            assert float(shown) <= row.lower
    read = list(csv.reader(io.StringIO(shell.to_csv(response))))
    assert [float(line[1]) for line in read[1:]] == [row.value for row in rows]
    assert all(len(line) == len(read[0]) for line in read)


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(REQUEST))
    return file


def test_output_to_pipe_is_json_and_formats_can_be_chosen(
    request_file: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    output: dict[str, bytes] = {}
    for form in ("", "--json", "--table", "--csv"):
        assert cli.main(["bounds", str(request_file), *([form] if form else [])]) == 0
        output[form] = capfdbinary.readouterr().out
    assert output[""] == output["--json"]
    answers = json.loads(output["--json"])["answers"]
    assert b"power at 0.01" in output["--table"]
    assert repr(answers[0]["value"]).encode() in output["--csv"]


def on_a_terminal(*words: str, columns: int = 100) -> str:
    """Return the output on a real terminal, without colours and cursor movements."""
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": str(columns)}
    command = [sys.executable, "-m", "service.cli", *words]
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    seen = b""
    while True:
        try:
            seen += (read := os.read(leader, 65536))
        except OSError:  # The terminal closes with the last process that holds it.
            break
        if not read:
            break
    process.wait(timeout=TEST_TIMEOUT)
    os.close(leader)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())


def test_output_on_terminal_is_table_or_sentence(request_file: Path) -> None:
    table = on_a_terminal("bounds", str(request_file))
    assert "safe value" in table
    assert "{" not in table
    request_file.write_text(json.dumps(REQUEST | {"questions": []}))
    problem = on_a_terminal("bounds", str(request_file))
    assert "Invalid request." in problem
    assert "/questions: " in problem


@pytest.mark.parametrize("columns", [thorough(80), thorough(160)])
def test_assessment_fits_the_terminal(columns: int, tmp_path: Path) -> None:
    run = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    asked = tmp_path / "run.json"
    asked.write_text(json.dumps({"mechanism": run, "context": {"delta": 1e-5}}))
    lines = on_a_terminal("assess", str(asked), "--table", columns=columns).splitlines()
    assert columns - 20 < max(map(len, lines)) <= columns
    piped = subprocess.run(
        [sys.executable, "-m", "service.cli", "assess", str(asked), "--table"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert " ".join(lines).split() == piped.stdout.split()


def test_bare_state_is_assessed_with_given_delta(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    bare, whole = tmp_path / "state.json", tmp_path / "whole.json"
    context = {"delta": 1e-6, "dataset_size": 120_000}
    bare.write_text(json.dumps(HISTORY))
    assert cli.main(["assess", str(bare)]) == cli.PROBLEM_EXIT_CODE
    assert b"--context" in capfdbinary.readouterr().err
    assert cli.main(["assess", str(bare), "--context", json.dumps(context)]) == 0
    answered = capfdbinary.readouterr().out
    (tmp_path / "context.json").write_text(json.dumps(context))
    assert cli.main(["assess", str(bare), "--context", str(tmp_path / "context.json")]) == 0
    assert capfdbinary.readouterr().out == answered
    whole.write_text(json.dumps({"mechanism": {"type": "imported", "content": HISTORY}, "context": context}))
    assert cli.main(["assess", str(whole)]) == 0
    assert json.loads(capfdbinary.readouterr().out)["digest"] == json.loads(answered)["digest"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_completion_script_is_valid(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capfd.readouterr().out
    assert "calibrate" in script
    assert "glrt-figure-3" in script
    assert (
        "--policy" in script or shell == "tcsh"
    )  # shtab supports positional arguments and few options for this shell.
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_plot_is_written_to_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = tmp_path / "request.json"
    vary = {"/mechanism/noise_multiplier": {"values": [1.0, 2.0]}}
    body = {"mechanism": {"type": "gaussian", "noise_multiplier": 1.0}, "vary": vary}
    request.write_text(json.dumps({**body, "questions": [{"type": "advantage"}]}))
    drawn = [tmp_path / name for name in ("a.svg", "a.png", "a.json")]
    plotted = ["plot", str(request), "--resource", "sweeps", "--target", "0.3", "--output"]
    assert [cli.main([*plotted, str(file)]) for file in drawn] == [0, 0, 0]
    assert "at most 30" in drawn[0].read_text("utf-8")
    assert drawn[1].read_bytes().startswith(b"\x89PNG")
    assert json.loads(drawn[2].read_text("utf-8"))["params"][0] == {"name": "target_0", "value": 0.3}
    bounds = tmp_path / "bounds.json"  # Curves have other fields.
    bounds.write_text(json.dumps({"mechanism": body["mechanism"], "questions": [{"type": "advantage"}]}))
    wrong = [[*plotted, str(tmp_path / "a.gif")], [*plotted, str(tmp_path / "none" / "a.svg")]]
    wrong += [[*plotted, str(drawn[0]), "--target", "1"], ["plot", str(bounds), "--output", str(drawn[0])]]
    assert [cli.main(each) for each in wrong] == [2, 2, 2, 2]
    assert "NaN" not in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main([*plotted, str(drawn[0]), "--target", "nan"])
