"""A failed policy is explained in three lines on standard error: which limit of which question failed by how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.command import main as cli

DPSGD = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
EPSILON = {"type": "epsilon", "delta": 1e-6}
POWER = {"type": "trade_off", "false_positive_rates": [0.001]}


def gate(rules: list[dict[str, Any]], folder: Path, mechanism: Any = DPSGD, **policy: Any) -> int:
    """Return the exit code of an assessment with a policy."""
    request = {
        "mechanism": mechanism,
        "context": {"delta": 1e-6, "dataset_size": 60000},
        "policy": {"name": "Release gate", "rules": rules, **policy},
    }
    file = folder / "request.json"
    file.write_text(json.dumps(request))
    return cli.main(["assess", str(file), "--json"])


@pytest.mark.parametrize("limit", [0.5, 1.0, 2.0])
def test_violated_limit_is_named_with_its_excess(
    limit: float, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert gate([{"question": EPSILON, "at_most": limit}], tmp_path) == 1
    found = capfd.readouterr()
    (ruling,) = json.loads(found.out)["decision"]["rulings"]
    first, second, third = found.err.splitlines()
    assert "'Release gate': violated" in first
    assert ruling["meaning"] in second
    percent = float(second.rpartition("by ")[2].partition("\u00a0%")[0])
    assert percent == pytest.approx(100 * (ruling["answer"]["upper"] / limit - 1), rel=0.01)
    assert "calibrate" in third


def test_worst_of_several_limits_comes_first(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rules = [
        {"question": EPSILON, "at_most": 2.0},
        {"question": EPSILON, "at_most": 100.0},
        {"question": POWER, "at_most": 0.001},
        {"question": EPSILON, "at_most": 0.01, "severity": "warning"},
    ]
    assert gate(rules, tmp_path) == 1
    _, second, third = capfd.readouterr().err.splitlines()
    assert "false positive rate" in second
    assert "1 more limit is not met" in third


def test_missing_attestations_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert gate([{"question": EPSILON, "at_most": 4.0}], tmp_path, requires="all") == 3
    first, second, third = capfd.readouterr().err.splitlines()
    assert "met_if_attested" in first
    assert "sensitivity_bounded" in second
    assert "Attest" in third


@pytest.mark.parametrize("rules", [[{"question": EPSILON, "at_most": 4.0}], [{"question": POWER, "at_most": 0.5}]])
def test_met_policy_says_nothing(
    rules: list[dict[str, Any]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert gate(rules, tmp_path) == 0
    assert capfd.readouterr().err == ""


def test_violated_limit_matters_more_than_missing_attestations(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert gate([{"question": EPSILON, "at_most": 1.0}], tmp_path, requires="all") == 1
    assert "calibrate" in capfd.readouterr().err.splitlines()[2]
