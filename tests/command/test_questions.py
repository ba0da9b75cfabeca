"""Commands for one question answer as the service does, and say what is wrong with their options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.command import main as cli
from service.command.questions import QUESTIONS
from service.engine_version import ENGINE_VERSION

RUN = ["--noise", "1.1", "--rate", "0.004", "--steps", "3000"]
MECHANISM = {"type": "dpsgd", "noise_multiplier": 1.1, "sample_rate": 0.004, "steps": 3000}
OPTIONS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "epsilon": (["--delta", "1e-5"], {"type": "epsilon", "delta": 1e-5}),
    "delta": (["--epsilon", "0.5"], {"type": "delta", "epsilon": 0.5}),
    "power": (
        ["--false-positive-rate", "0.01", "--false-positive-rate", "1e-4"],
        {"type": "trade_off", "false_positive_rates": [0.01, 1e-4]},
    ),
    "reconstruction": (["--baseline-success", "0.1"], {"type": "reconstruction", "baseline_success": 0.1}),
    "advantage": ([], {"type": "advantage"}),
    "gdp-mu": ([], {"type": "gdp_mu"}),
    "accuracy": (["--prior", "0.5"], {"type": "attack_accuracy", "prior": 0.5}),
}


def answer_of(
    mechanism: dict[str, Any], question: dict[str, Any], folder: Path, capfdbinary: Any, **more: Any
) -> bytes:
    """Return the answer of the command with a file."""
    file = folder / "request.json"
    file.write_text(json.dumps({"mechanism": mechanism, "questions": [question], **more}))
    assert cli.main(["bounds", str(file)]) == 0
    return capfdbinary.readouterr().out


def test_every_command_is_tested() -> None:
    assert OPTIONS.keys() == QUESTIONS.keys()


@pytest.mark.parametrize("command", OPTIONS)
def test_command_answers_as_the_file_does(command: str, tmp_path: Path, capfdbinary: Any) -> None:
    options, question = OPTIONS[command]
    expected = answer_of(MECHANISM, question, tmp_path, capfdbinary)
    assert cli.main([command, *RUN, *options, "--json"]) == 0
    found = capfdbinary.readouterr()
    assert found.out == expected
    assert b"read as dpsgd (Poisson sampling)" in found.err


@pytest.mark.parametrize("command", OPTIONS)
def test_value_is_the_safe_value_alone(command: str, capfdbinary: Any) -> None:
    options, _ = OPTIONS[command]
    assert cli.main([command, *RUN, *options, "--json"]) == 0
    (answer,) = json.loads(capfdbinary.readouterr().out)["answers"]
    numbers = [point["power"] for point in answer["points"]] if "points" in answer else [answer]
    assert cli.main([command, *RUN, *options, "--value"]) == 0
    assert [float(line) for line in capfdbinary.readouterr().out.splitlines()] == [each["value"] for each in numbers]


def test_relation_and_direction_are_sent(tmp_path: Path, capfdbinary: Any) -> None:
    model = {"type": "worst_case", "neighboring_relation": "replace_one"}
    question = {"type": "delta", "epsilon": 1.0, "direction": "remove"}
    expected = answer_of(MECHANISM, question, tmp_path, capfdbinary, threat_model=model)
    options = ["--epsilon", "1", "--direction", "remove", "--relation", "replace_one"]
    assert cli.main(["delta", *RUN, *options, "--json"]) == 0
    assert capfdbinary.readouterr().out == expected


@pytest.mark.parametrize("content", [{"type": "gdp", "mu": 0.5}, {"history": [[1.1, 0.004, 3000]], "mechanism": "rdp"}])
def test_run_is_a_file_with_a_mechanism_or_a_state(content: Any, tmp_path: Path, capfdbinary: Any) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(content))
    assert cli.main(["epsilon", "--run", str(file), "--delta", "1e-5", "--json"]) == 0
    found = capfdbinary.readouterr()
    assert json.loads(found.out)["answers"][0]["upper"] > 0
    assert b"read as" not in found.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["epsilon", *RUN], "the following arguments are required: --delta"),
        (["epsilon", *RUN[:4], "--delta", "1e-5"], "--steps missing"),
        (["epsilon", "--delta", "1e-5"], "--noise, --rate, --steps missing"),
        (["epsilon", *RUN, "--delta", "nan"], "use a finite number, not 'nan'"),
        (["epsilon", *RUN[:5], "1.5", "--delta", "1e-5"], "use a whole number, not '1.5'"),
        (["epsilon", *RUN, "--run", "x.json", "--delta", "1e-5"], "send either --run or"),
        (["epsilon", "--run", "/nowhere/x.json", "--delta", "1e-5"], "cannot read /nowhere/x.json"),
        (["epsilon", *RUN, "--delta", "2"], "/questions/0/delta"),
        (["power", *RUN, "--false-positive-rate", "-1"], "/questions/0/false_positive_rates/0"),
        (["advantage", "--noise", "1", "--rate", "2", "--steps", "5"], "/mechanism/sample_rate"),
        (["accuracy", *RUN, "--prior", "0.5", "--json", "--value"], "not allowed with"),
    ],
)
def test_wrong_options_are_named(arguments: list[str], sentence: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        code = cli.main(arguments)
    except SystemExit as ended:
        code = ended.code
    found = capfd.readouterr()
    assert (code, found.out) == (2, "")
    assert sentence in found.err


def test_version_names_package_and_engine(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capfd.readouterr().out.endswith(f"engine {ENGINE_VERSION}\n")
