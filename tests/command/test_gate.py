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


def gate(rules: list[dict[str, Any]], folder: Path, mechanism: Any = DPSGD, attested: Any = (), **policy: Any) -> int:
    """Return the exit code of an assessment with a policy."""
    request = {
        "mechanism": mechanism,
        "context": {"delta": 1e-6, "dataset_size": 60000, "attested": list(attested)},
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


def test_infinite_number_is_named_without_an_excess(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rules = [{"question": EPSILON, "at_most": 4.0}, {"question": {"type": "advantage"}, "at_most": 0.01}]
    assert gate(rules, tmp_path, {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-3}) == 1
    _, second, third = capfd.readouterr().err.splitlines()
    assert second.endswith("Violated: the run has Infinity to Infinity.")
    assert "1 more limit" in third


def test_excess_over_a_limit_of_zero_is_no_share(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert gate([{"question": {"type": "advantage"}, "at_most": 0.0}], tmp_path, {"type": "gdp", "mu": 1.0}) == 1
    assert "of it" not in capfd.readouterr().err.splitlines()[1]


def test_limit_within_the_bounds_is_undecided(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shuffled = DPSGD | {"sampling": "shuffled"}
    assert gate([{"question": EPSILON, "at_most": 12.0}], tmp_path, shuffled) == 1
    found = capfd.readouterr()
    (ruling,) = json.loads(found.out)["decision"]["rulings"]
    assert ruling["answer"]["lower"] < 12 < ruling["answer"]["upper"]
    assert "Undecided: the limit lies within the bounds" in found.err.splitlines()[1]


def test_refuted_assumption_of_all_numbers_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    attested = [{"code": "sensitivity_bounded", "holds": "no", "by": "A reviewer"}]
    assert gate([{"question": EPSILON, "at_most": 4.0}], tmp_path, attested=attested) == 1
    found = capfd.readouterr()
    assert json.loads(found.out)["decision"]["verdict"] == "void"
    first, _, third = found.err.splitlines()
    assert "void" in first
    assert "calibrate" not in third
