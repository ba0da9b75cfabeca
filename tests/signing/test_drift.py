"""The report on two engine versions counts what moved, and fails if enclosures do not meet."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.drift import compare, main, parse, section
from tests.frozen.answers import FILE, Answer, FrozenAnswers, read_frozen_answers

ONE = Answer(0, "bounds", "asked", "bytes", "numbers", bounds=((1.0, 2.0),))
OLD = FrozenAnswers({}, "1", (), (ONE, replace(ONE, number=1, resource="curves")))


def now(**changes: Any) -> FrozenAnswers:
    return replace(OLD, engine_version="2", answers=(replace(ONE, **changes), *OLD.answers[1:]))


def test_stored_corpus_does_not_drift_from_itself() -> None:
    kept = read_frozen_answers()
    assert parse(FILE.read_text("utf-8")) == kept
    rows = compare(kept, kept)
    assert (rows["all"].bytes, rows["all"].moved) == (len(kept.answers), 0)
    assert sum(row.answers for name, row in rows.items() if name != "all") == rows["all"].answers


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({}, {"bytes": 1, "numbers": 1}),
        ({"bytes": "other"}, {"bytes": 0, "numbers": 1, "moved": 0}),
        ({"numbers": "other", "bounds": ((1.0, 1.5),)}, {"moved": 1, "change": 0.25, "wider": 0, "apart": []}),
        ({"numbers": "other", "bounds": ((0.5, 2.0),)}, {"moved": 1, "change": 0.5, "wider": 1, "apart": []}),
        ({"numbers": "other", "bounds": ((3.0, 4.0),)}, {"apart": ["request 0: was [1.0, 2.0], is [3.0, 4.0]"]}),
        ({"numbers": "other", "problem": "422 a", "bounds": ()}, {"moved": 1, "enclosures": 0}),
        ({"asked": "other", "bounds": ((3.0, 4.0),)}, {"other": 1, "bytes": 0, "enclosures": 0, "apart": []}),
    ],
)
def test_changes_are_counted(changes: dict[str, Any], counted: dict[str, Any]) -> None:
    row = compare(OLD, now(**changes))["bounds"]
    assert {name: getattr(row, name) for name in counted} == counted
    assert section(OLD, now(**changes)).reaches[0].met is not bool(row.apart)


def test_report_without_any_comparison_is_not_met() -> None:
    other = replace(OLD, engine_version="2", answers=tuple(replace(each, asked="other") for each in OLD.answers))
    for compared in (other, replace(OLD, answers=())):
        found = section(OLD, compared)
        assert not found.reaches[0].met
        assert "No enclosure was compared" in found.markdown()


def test_command_fails_if_enclosures_do_not_meet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.json", tmp_path / "now.json"
    text = json.loads(FILE.read_text("utf-8"))
    text["answers"] = [each for each in text["answers"][:200] if each[-1]][:3]
    before.write_text(json.dumps(text))
    assert main([str(before), str(before)]) == 0
    text["engine_version"] = "later"
    text["answers"][1][4] = "other"
    text["answers"][1][-1] = [[high + 1, high + 2] for _, high in text["answers"][1][-1]]
    after.write_text(json.dumps(text))
    report = tmp_path / "drift.md"
    assert main([str(before), str(after), "--output", str(report)]) == 1
    assert "and later" in report.read_text()
    assert "is [" in report.read_text()
    capsys.readouterr()
    assert main([str(tmp_path / "missing"), str(after)]) == 2
    assert "neither a file of answers, nor a revision" in capsys.readouterr().err
