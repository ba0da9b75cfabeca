"""Figures of the papers: the guide lists all of them, and computed numbers equal the published ones."""

from __future__ import annotations

import re
from functools import cache

import pytest

from api_schemas.problems import Problem
from service.bibliography.attacks import FIVE_PAPERS
from service.command.figure import compute_points
from service.rendering.paper_figures import CITATIONS, FIGURES, UNAVAILABLE
from service.rendering.paper_figures.figure import FigurePoint, Paper
from service.resources.catalogue import RESOURCES
from tests.contract.pages import section

ADULT = (3.38, 2.77, 2.30, 1.93, 1.65, 0.00, 0.00)
"""Noise of Adult (MIP) in Table 5 of the paper on GMIP, for the first values of mu."""
PUBLISHED = [
    ("membership-figure-3", "epsilon = 2", 0.01, 6.9e-2, 1e-3),
    ("membership-figure-4b", "attack of Section 5.2", -0.5, 0.549, 5e-4),
    ("membership-figure-7", "with the printed sign, too large", 0.5, 12_000, 500),
    ("pmp-figure-2", "to epsilon", 50.0, 0.0123, 1e-3),
    ("pmp-figure-2", "to epsilon(X) by sensitivity", 50.0, 0.0123, 1e-3),
    *(("gmip-table-5", "Adult (MIP)", 0.4 * 125 ** (place / 19), tau, 5e-3) for place, tau in enumerate(ADULT)),
]
"""Figure, curve, abscissa, number in the paper, and half a unit of its last digit or the spread of a simulation."""


@cache
def points(name: str) -> tuple[FigurePoint, ...]:
    """Compute the points of the figure with this name once."""
    found = compute_points(FIGURES[name])
    assert not isinstance(found, Problem), found
    return tuple(found)


@pytest.mark.parametrize(("name", "series", "x", "printed", "tolerance"), PUBLISHED)
def test_computed_numbers_equal_published_numbers(
    name: str, series: str, x: float, printed: float, tolerance: float
) -> None:
    [found] = [point.value for point in points(name) if point.series == series and point.x == pytest.approx(x)]
    assert abs(found - printed) <= tolerance


def test_same_epsilon_has_different_reconstruction() -> None:
    found = {point.series: point.value for point in points("reconstruction-figure-1f") if point.x == 0.1}
    assert found["p = 0.1, add"] == pytest.approx(0.149271, abs=1e-6)
    assert found["p = 0.9, add"] == pytest.approx(0.343223, abs=1e-6)


def test_gaussian_limit_of_figure_5_is_no_bound() -> None:
    found = {point.series: point.value for point in points("glrt-figure-5") if point.x == 0.01}
    assert found["R (add)"] == pytest.approx(0.0285377, abs=1e-7)
    assert found["limit, Equation 36"] == pytest.approx(0.0275492, abs=1e-7)


@pytest.mark.thorough
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_computed_with_ordered_bounds(name: str) -> None:
    found = points(name)
    assert len(found) >= 6
    assert len({(point.series, point.x) for point in found}) >= 0.9 * len(found)
    for point in found:
        assert point.lower is None or point.lower <= point.value * (1 + 1e-9) + 1e-300
        assert point.upper is None or point.upper >= point.value * (1 - 1e-9)


@pytest.mark.parametrize("paper", CITATIONS)
def test_page_lists_all_figures_and_tables(paper: Paper) -> None:
    rows = re.findall(r"(?m)^\| ((?:Figure|Table) .*) \|$", section("Figures and tables", f"paper-{paper}"))
    figures = [
        f"{figure.label} | `{name}` | {figure.agrees} | {figure.finding}"
        for name, figure in FIGURES.items()
        if figure.paper == paper
    ]
    missing = [f"{each.label} | none | | {each.reason}" for each in UNAVAILABLE if each.paper == paper]
    assert rows == figures + missing


def test_figures_name_resources_and_known_papers() -> None:
    assert len(CITATIONS) == len(FIVE_PAPERS)
    for name, figure in FIGURES.items():
        assert name == figure.name
        assert name.startswith(f"{figure.paper}-")
        assert {part.resource for part in figure.parts} <= set(RESOURCES)
        assert figure.finding.endswith(".")
