"""Runs of exactly two steps whose curves are those of shifted laws, sampled or not."""

from __future__ import annotations

from service.privacy.mechanisms.abstract import Steps
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.loss_cells import SampledShift
from service.privacy.trade_off.loss_sums import FirstStep
from service.privacy.trade_off.poisson_sampled import PoissonSampledAdd
from service.privacy.trade_off.shifted import AbstractShifted
from service.privacy.trade_off.two_steps import TwoSteps


def is_two_steps(steps: Steps) -> bool:
    """Whether there are two, whatever they are."""
    return sum(count for _, count in steps) == 2


def two_steps_curve(steps: Steps, sensitivity: float) -> TwoSteps | None:
    """The curve of the add direction; None where there are not two steps, or one is of another kind."""
    if not is_two_steps(steps):
        return None
    alone = [step.curves(sensitivity) for step, count in steps for _ in range(count)]
    first, second = (pair.add for pair in alone)
    cells = _cells_of(first)
    if cells is None or _cells_of(second) is None or any(pair.bracket for pair in alone):
        return None
    return TwoSteps(cells, first, second)


def _cells_of(curve: AbstractTradeOff) -> FirstStep | None:
    rate = 1.0
    if isinstance(curve, PoissonSampledAdd):
        curve, rate = curve.base, curve.rate
    if not isinstance(curve, AbstractShifted):
        return None
    low, high = (SampledShift(curve.law, shift, rate) for shift in (curve.shift.lower, curve.shift.upper))
    return FirstStep((low, high))
