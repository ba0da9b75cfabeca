"""Trade-off curves of short runs of Poisson-sampled Gaussian steps, as a whole: many points cost as much as one.

The laws of `laws.py` bound the run. `upper` gives lines power <= delta + e^eps rate at its losses, in both directions.
Between its losses the delta of `upper` is linear in e^eps, so chords between these lines are exact. `lower` gives the
tests "the loss is above a value". All numbers are sums of positive terms.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from service.privacy.composition.short_runs.laws import BoundingLaws, LossValues, sampled_gaussian
from service.privacy.composition.short_runs.reach import is_short_run
from service.privacy.mechanisms.abstract import SampledGaussianPart, Steps
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.polygon import Corners, PolygonTradeOff
from service.privacy.trade_off.selection.supporting_lines import BetweenLines

FINER: Final = 2.0
"""Factor of the number of cells of the whole run, which is not composed further."""
SLACK: Final = 1e-9
"""Relative error of deltas of the upper law for each step: rounded masses and parameters of a step, and sums."""
METHOD: Final = "discretised"
SOURCE: Final = (
    "Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs); Doroshenko et al. 2022 (connect the dots)"
)
LARGEST: Final = 690.0
"""Largest epsilon of a line in nats."""


def short_run(steps: Steps) -> TradeOffPair | None:
    """Return curves that bound a short run of Poisson-sampled Gaussian steps from both sides; None for other runs.

    Parameters
    ----------
    steps : Steps
        Steps of the run with their counts.

    Returns
    -------
    TradeOffPair or None
        Brackets in both directions, for deltas and errors from 1e-25 on.
    """
    if not is_short_run(steps):
        return None
    total = sum(count for _, count in steps)
    ((step, _),) = steps
    part = step.part()
    if not isinstance(part, SampledGaussianPart):
        return None
    law = sampled_gaussian(part.noise_multiplier, part.sample_rate)
    return _pair(_product(_powers(law, total)), SLACK * total)


def _powers(law: BoundingLaws, count: int) -> list[BoundingLaws]:
    """Return laws whose product is the law of `count` steps with the given law: powers of 2, the largest one as two."""
    found: list[BoundingLaws] = []
    while count > 1:
        if count in (2, 3):
            found.append(law)
        if count & 1:
            found.append(law)
        count >>= 1
        if count > 1:
            law = law.composed(law)
    return [*found, law]


def _product(factors: list[BoundingLaws]) -> BoundingLaws:
    """Return the law of all factors together, from the largest powers on, with more cells in the last product."""
    *others, law = factors
    while others:
        other = others.pop()
        law = law.composed(other, 1.0 if others else FINER)
    return law


def _pair(laws: BoundingLaws, slack: float) -> TradeOffPair:
    """Return brackets between the curves of both laws; `slack` is the relative error of deltas of the upper law."""
    ahead, back = _lines(laws.upper, laws.unit, slack), _lines(_swapped(laws.upper), laws.unit, slack)
    above = BetweenLines.of(ahead, back, METHOD)
    below = PolygonTradeOff(_corners(laws.lower, laws.error + UNIT_ROUNDOFF * len(laws.lower.p)))
    return TradeOffPair(Bracketed(below, above), Bracketed(below.reversed(), above.reversed()), SOURCE)


def _swapped(law: LossValues) -> LossValues:
    """Return the finite values of minus the loss under swapped hypotheses."""
    return LossValues(-law.units[::-1], law.q[::-1], law.p[::-1])


def _lines(law: LossValues, unit: float, slack: float) -> tuple[FloatArray, FloatArray]:
    """Return epsilons from 0 on (nats, rising), and upper bounds of delta: sums of (P - e^eps Q)_+ over the upper law.

    `slack` is the relative error of the sums.
    """
    losses = law.units * unit
    beyond = np.append(np.cumsum(law.q[::-1])[::-1], 0.0)
    right = np.flatnonzero((losses > 0) & (losses <= LARGEST))
    epsilons = np.append(0.0, losses[right])
    mass = beyond[np.searchsorted(losses, epsilons, side="right")]
    last = float(law.infinite + np.maximum(law.p - np.exp(epsilons[-1]) * law.q, 0.0)[losses > epsilons[-1]].sum())
    steps = np.exp(epsilons[:-1]) * np.expm1(np.diff(epsilons)) * mass[:-1]
    deltas = last + np.append(np.cumsum(steps[::-1])[::-1], 0.0)
    return epsilons, np.minimum(deltas * (1 + slack), 1.0)


def _corners(law: LossValues, slack: float) -> Corners:
    """Return the tests "the loss is above a value" of the lower law, with the relative error `slack` of their sums."""
    p, q = law.p[::-1], law.q[::-1]
    rate, power = np.cumsum(q)[:-1] * (1 + slack), np.cumsum(p)[:-1] * (1 - slack)
    rest, error = np.cumsum(law.q)[::-1][1:] * (1 - slack), np.cumsum(law.p)[::-1][1:] * (1 + slack)
    rate, rest = np.where(rate > 0.5, 1 - rest, rate), np.where(rate > 0.5, rest, 1 - rate)
    power, error = np.where(power > 0.5, 1 - error, power), np.where(power > 0.5, error, 1 - power)
    return Corners.hull(rate, rest, power, error)
