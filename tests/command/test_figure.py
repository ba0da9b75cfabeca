"""`privacy-bounds figure` writes figures and tables of the five papers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from service.command.main import main
from service.rendering.paper_figures import FIGURES, UNAVAILABLE

NAME = "membership-figure-3"


def test_csv_has_header_and_all_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", NAME, "--output", str(tmp_path / "figure.csv")]) == 0
    header, *rows = csv.reader((tmp_path / "figure.csv").read_text("utf-8").splitlines())
    assert header == ["series", "prior", "positive_accuracy", "lower", "upper"]
    assert len(rows) == 4 * 99
    assert all(float(lower) <= float(value) <= float(upper) for _, _, value, lower, upper in rows)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"Figure 3: agrees. {FIGURES[NAME].finding}" in shown.err


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<svg"), ("pdf", b"%PDF-")])
def test_pictures_are_written(tmp_path: Path, suffix: str, start: bytes) -> None:
    output = tmp_path / f"figure.{suffix}"
    assert main(["figure", NAME, "--output", str(output)]) == 0
    assert output.read_bytes().startswith(start)


def test_specification_shows_every_curve_on_labelled_axes(tmp_path: Path) -> None:
    output = tmp_path / "figure.json"
    assert main(["figure", "membership-figure-7", "--output", str(output)]) == 0
    spec = json.loads(output.read_bytes())
    assert len({row["series"] for row in spec["data"]["values"]}) == 2
    assert spec["layer"][1]["encoding"]["y"]["scale"]["type"] == "log"
    assert spec["title"]["subtitle"][0].startswith("Figure 7 of Thudi")


def test_list_has_every_figure_and_every_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "--list"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("\n") == len(FIGURES) + len(UNAVAILABLE)
    assert all(f"{name}: " in printed for name in FIGURES)
    assert all(each.reason in printed for each in UNAVAILABLE)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["figure"], "give the name of a figure and --output FILE"),
        (["figure", NAME], "give the name of a figure and --output FILE"),
        (["figure", "glrt-figure-99", "--output", "a.svg"], "privacy-bounds figure --list"),
        (["figure", NAME, "--output", "a.docx"], "must end in one of .svg, .pdf, .csv, .json"),
        (["figure", NAME, "--output", "/nowhere/a.csv"], "cannot write /nowhere/a.csv"),
    ],
)
def test_refusals_say_what_to_do(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert sentence in capsys.readouterr().err
