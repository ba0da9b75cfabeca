"""Verdict on which of two trade-off curves is harder to attack, in the format of responses."""

from __future__ import annotations

from service.privacy.enclosure import Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.questions.dominance import compare
from service.privacy.trade_off.abstract import CurvePoints
from service.resources.abstract import ResponseFields

Read = tuple[CurvePoints, Evidence]
"""Points of a curve at a list of rates, with their evidence."""

COMPARISON_COST, COMPARED_POINT_COST = 40, 0.02
"""Cost of a comparison of two curves, and of each point."""


def curve_verdict(rates: FloatArray, first: Read, second: Read) -> ResponseFields:
    """Return which of two trade-off curves is more private at the false positive rates `rates`.

    The result has the fields of `CurveVerdict`. `first` and `second` are (points, evidence) pairs with the points at
    these rates.
    """
    comparison = compare(rates, first, second)
    return {
        "verdict": comparison.verdict,
        "crossings": [{"start": start, "end": end} for start, end in comparison.crossings],
        "undecided_rates": comparison.undecided,
        "evidence": comparison.evidence,
    }
