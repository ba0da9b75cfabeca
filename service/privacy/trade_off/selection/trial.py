"""One run of a selection: points of its trade-off curve and of its profile, which all selections of the run share."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final, final

import numpy as np

from service.privacy.enclosure import Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.polygon import PolygonTradeOff
from service.privacy.trade_off.selection.nodes import ROUNDING, Nodes, differences
from service.privacy.trade_off.selection.supporting_lines import BetweenLines

GRID: Final = np.concatenate(([-np.inf], np.linspace(-8.0, 8.0, 161), [np.inf]))
"""Normal scores of the rates at which a curve is evaluated first."""
DENSE: Final = np.concatenate(([-np.inf], np.linspace(-8.0, 8.0, 321), [np.inf]))
"""The same for curves that are exact or given by lists, and so inexpensive."""
FAR: Final = -np.geomspace(37.0, 8.3, 30)
"""Normal scores of smaller rates, for exact curves, and for curves with much power at such rates."""
FEW: Final = -np.geomspace(16.0, 9.0, 6)
"""Normal scores of smaller rates for other curves."""
MUCH: Final = 1e-4
"""Power at the smallest rate of GRID from which all of FAR is evaluated."""
STRAIGHT: Final = 0.99
"""Share of the largest log ratio in ln(power/rate) from which no smaller rates are evaluated: T is nearly a line."""
STEEP: Final = 0.3
"""Difference of the log slopes (nats) at the ends of a cell from which the cell of an exact curve is divided."""
SEEN: Final = 1e-18
"""Smallest power of cells that are divided."""
MOST_PARTS: Final = 12
"""Largest number of parts of a divided cell."""
LARGEST: Final = 690.0
"""Largest threshold (nats): its exponential and products with numbers of trials are doubles."""
DISTANT: Final = 0.06
"""Distance of thresholds (nats) from which the middle is a threshold, too."""
APART: Final = 1e-9
"""Smallest distance of thresholds (nats)."""


@final
class TrialCurve:
    """Trade-off curve of one run in one direction, evaluated once for all laws of the number of runs.

    Parameters
    ----------
    curve : AbstractTradeOff
        The curve, or that of a pair that dominates each run.
    """

    def __init__(self, curve: AbstractTradeOff) -> None:
        self.curve = curve

    @cached_property
    def nodes(self) -> Nodes:
        """Points of the curve at the rates of the first grid, at smaller rates, and at the rates 0 and 1."""
        return _nodes_of(self.curve)

    @cached_property
    def profile(self) -> tuple[FloatArray, FloatArray]:
        """Thresholds (nats, rising), and upper bounds of the profile delta of one run at each, both of shape (m,)."""
        return _profile(self.curve, self.nodes)


def _nodes_of(curve: AbstractTradeOff) -> Nodes:
    """Return the points of `curve` at the rates of the first grid, at smaller rates, and at the rates 0 and 1."""
    is_exact = curve.evidence is Evidence.EXACT or isinstance(curve, BetweenLines | PolygonTradeOff)
    nodes = Nodes.of(curve, DENSE if is_exact else GRID)
    rate, power = float(nodes.rate[1]), float(nodes.power[0, 1])
    if power > 0 and math.log(power / rate) >= STRAIGHT * curve.largest_log_ratio.upper:
        return nodes
    nodes = nodes.with_scores(curve, FAR if is_exact or power >= MUCH else FEW)
    return _divided_where_steep(curve, nodes) if is_exact else nodes


def _divided_where_steep(curve: AbstractTradeOff, nodes: Nodes) -> Nodes:
    """Return `nodes` and further points of `curve`, in cells whose ends have very different slopes.

    Attacks give one score to all outcomes of a cell.
    """
    slopes = nodes.log_slope.mean(axis=0)
    with np.errstate(invalid="ignore"):
        parts = np.nan_to_num(np.ceil((slopes[:-1] - slopes[1:]) / STEEP), nan=1.0, posinf=1.0, neginf=1.0)
    seen = (nodes.power[0, 1:] > SEEN) & np.isfinite(nodes.score[:-1]) & np.isfinite(nodes.score[1:])
    parts = np.where(seen, np.clip(parts, 1.0, MOST_PARTS), 1.0).astype(np.intp)
    if not (parts > 1).any():
        return nodes
    at = np.repeat(np.arange(len(parts)), parts - 1)
    share = (np.arange(len(at)) - np.repeat(np.cumsum(parts - 1) - (parts - 1), parts - 1) + 1) / parts[at]
    return nodes.with_scores(curve, nodes.score[at] + (nodes.score[at + 1] - nodes.score[at]) * share)


def _profile(curve: AbstractTradeOff, nodes: Nodes) -> tuple[FloatArray, FloatArray]:
    """Return thresholds (nats, rising), and upper bounds of delta at each.

    The thresholds are the extreme ratios and the log slopes of the chords of the power between the nodes. A curve that
    is given by lines has the slopes of its lines instead. At the largest log-likelihood ratio, delta is the mass of
    infinite ratios. At the smallest ratio c it is 1 - e^c.
    """
    if isinstance(curve, BetweenLines):
        slopes = np.concatenate((-curve.back.epsilons, curve.ahead.epsilons))
    else:
        with np.errstate(all="ignore"):
            slopes = np.log(differences(nodes.power[1], nodes.error[0])) - np.log(nodes.widths)
    largest, smallest = curve.largest_log_ratio.upper, curve.smallest_log_ratio.lower
    found = np.unique(np.append(slopes[np.isfinite(slopes)], 0.0))
    far = np.flatnonzero(np.diff(found) > DISTANT)
    found = np.sort(np.append(found, (found[far] + found[far + 1]) / 2))
    found = found[(np.abs(found) < LARGEST) & (found > smallest + APART) & (found < largest - APART)]
    found = found[np.append(np.diff(found) > APART, [True])] if found.size else found
    delta = np.minimum(curve.profile(found).upper, 1.0) if found.size else found
    if smallest > -LARGEST:
        found, delta = np.append(smallest, found), np.append(-math.expm1(smallest) * (1 + ROUNDING), delta)
    if largest < LARGEST and largest > smallest:
        found, delta = np.append(found, largest), np.append(delta, curve.singular_power.upper)
    return (found, delta) if found.size else (np.zeros(1), np.minimum(curve.profile(np.zeros(1)).upper, 1.0))
