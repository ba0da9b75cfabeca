"""Which of two curves is harder to attack, as it travels."""

from __future__ import annotations

from service.computations.abstract import ResponseFields
from service.privacy.enclosure import Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.questions.dominance import compare
from service.privacy.trade_off.abstract import CurvePoints

Read = tuple[CurvePoints, Evidence]
"""What was read of a curve at a list of rates."""

COMPARISON_COST, COMPARED_POINT_COST = 40, 0.02
"""Of two curves, and of each of their points, in units of cost."""


def curve_verdict(rates: FloatArray, first: Read, second: Read) -> ResponseFields:
    """The fields of `CurveVerdict`, of two curves read at the same rates."""
    comparison = compare(rates, first, second)
    return {
        "verdict": comparison.verdict,
        "crossings": [{"start": start, "end": end} for start, end in comparison.crossings],
        "undecided_rates": comparison.undecided,
        "evidence": comparison.evidence,
    }
