"""The table of capacity in the guide is computed from the assumptions in `benchmarks/capacity`, and says so."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.capacity.__main__ import FACTORS, needs
from benchmarks.capacity.load import MEASURED
from tests.contract.pages import section

README = (Path(__file__).parents[2] / "benchmarks/capacity/README.md").read_text("utf-8")


def test_guide_has_the_computed_numbers() -> None:
    rows = re.findall(r"(?m)^\| (\d+) \| (\d+) \| (\d+) \| (\d+).* \| (.*) \|$", section("Capacity", "operating"))
    assert [int(row[0]) for row in rows] == [*FACTORS]
    for factor, *counts, kept in rows:
        found = needs(int(factor))
        assert [int(each) for each in counts] == [found.cores, found.machines, found.instances]
        if size := re.match(r"([\d.]+) GB", kept):
            assert size[1] == f"{found.gigabytes:.{1 if found.gigabytes < 10 else 0}f}"


def test_pages_name_the_day_of_the_measurements() -> None:
    assert MEASURED in section("Capacity", "operating")
    assert MEASURED in README
