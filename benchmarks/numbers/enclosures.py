"""Enclosures against reference values: do they meet, and how narrow are they? All covered rows of rero.json and
truth_composed.json.
"""

from __future__ import annotations

import json
from functools import cache
from statistics import median
from typing import Any, Final

from benchmarks.cases import README_OF_RISKCAL
from benchmarks.report import Reach, Section, Table
from service.privacy.enclosure import Enclosure
from service.privacy.questions import reconstruction
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built
from tests.privacy.references import (
    as_printed,
    meets,
    number,
    read_composed,
    read_rero,
    rero_gamma_rows,
    rero_spec,
    rows,
)

LARGEST_WIDTH: Final = 1e-6
LARGEST_MEDIAN_WIDTH: Final = 1e-9
PUBLISHED: Final = 0.0134700
PUBLISHED_TOLERANCE: Final = 5e-8


def measure() -> Section:
    section = Section("Enclosures")
    read = _rero() + _composed()
    widths = {row["id"]: value.relative_width() for row, value in read}
    missed = [row["id"] for row, value in read if not _as_it_should(row, value)]
    wide = [name for name, width in widths.items() if width > LARGEST_WIDTH]
    middle, widest = median(widths.values()), max(widths, key=lambda name: widths[name])
    section.reaches += [
        Reach(
            "enclosure meets value +- abs_tol of the reference",
            "every covered case",
            f"{len(read) - len(missed)} of {len(read)}" + (f"; missed: {', '.join(missed)}" if missed else ""),
            not missed,
        ),
        Reach(
            "relative width there",
            "<= 1e-6, median <= 1e-9",
            f"largest {widths[widest]:.2g} ({widest}), median {middle:.2g}; {len(wide)} wider than 1e-6",
            not wide and middle <= LARGEST_MEDIAN_WIDTH,
        ),
        _readme_case(),
    ]
    section.tables.append(
        Table(
            "The ten widest enclosures of the reference",
            ("row", "relative width", "lower", "upper", "value"),
            [
                (row["id"], value.relative_width(), repr(value.lower), repr(value.upper), row["value"])
                for row, value in sorted(read, key=lambda pair: -pair[1].relative_width())[:10]
            ],
        )
    )
    return section


def _as_it_should(row: dict[str, Any], value: Enclosure) -> bool:
    if as_printed(row):  # A misprint in the source: the enclosure must miss the value.
        return not value.lower <= number(row["value"]) <= value.upper
    return meets(value, row)


def _rero() -> list[tuple[dict[str, Any], Enclosure]]:
    covered = [(row, rero_spec(row)) for row in rero_gamma_rows()]
    return [(row, read_rero(_curves(json.dumps(spec)), row)) for row, spec in covered]


def _composed() -> list[tuple[dict[str, Any], Enclosure]]:
    covered = [(row, row["inputs"]["mechanism"]) for row in rows("truth_composed")]
    return [(row, read_composed(_curves(json.dumps(spec)), row)) for row, spec in covered]


@cache
def _curves(spec: str) -> TradeOffPair:
    return WorstCase().curves(built(json.loads(spec)))


def _readme_case() -> Reach:
    power = reconstruction.gamma(README_OF_RISKCAL.curves().add, 1e-4).value
    met = power.lower <= PUBLISHED + PUBLISHED_TOLERANCE and power.upper >= PUBLISHED - PUBLISHED_TOLERANCE
    measured = f"[{power.lower!r}, {power.upper!r}]; what riskcal answers stands in the table of peers"
    return Reach("riskcal's README case (0.5, 0.002, 10000), power at FPR 1e-4", "0.0134700", measured, met)
