"""Runs of exactly two steps whose noise laws are shifted by the record, sampled or not, or Gaussian mixtures."""

from __future__ import annotations

from service.privacy.mechanisms.abstract import Steps
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.sampling.loss_cells import SampledShift
from service.privacy.trade_off.sampling.loss_sums import FirstStep
from service.privacy.trade_off.sampling.mixture_cells import MixtureInCells
from service.privacy.trade_off.sampling.poisson_sampled import PoissonSampledAdd
from service.privacy.trade_off.sampling.two_steps import TwoSteps
from service.privacy.trade_off.shifted.curve import AbstractShifted
from service.privacy.trade_off.shifted.gaussian_mixture import GaussianMixtureTradeOff


def is_two_steps(steps: Steps) -> bool:
    """Return whether the counts of these steps add up to exactly two."""
    return sum(count for _, count in steps) == 2


def two_steps_curve(steps: Steps) -> TwoSteps | None:
    """Return the trade-off curve of the add direction of a run of exactly two steps, or None.

    None stands for a run without exactly two steps, or with a step that is neither a mixture of shifted Gaussians nor a
    step whose noise law the record shifts. It also stands for a step whose curves are only a bracket of two theorems.
    """
    if not is_two_steps(steps):
        return None
    alone = [step.curves() for step, count in steps for _ in range(count)]
    known = [(cells, pair.add) for pair in alone if (cells := _cells_of(pair.add)) is not None and not pair.bracket]
    if len(known) < 2:
        return None
    # The cells of a loss that hardly varies are soon narrow, and the profile of the other step is smooth there.
    (cells, first), (_, second) = sorted(known, key=lambda one: one[0].ends[1].spread)
    return TwoSteps(cells, first, second)


def two_steps_pair(steps: Steps) -> TradeOffPair | None:
    """Return the trade-off curves of both directions of a run of two steps, or None.

    The result is None if `two_steps_curve` is None: the run has not exactly two steps, or a step is neither a shifted
    noise law nor a mixture of shifted Gaussians, or a step's curves are only a bracket of two theorems.
    """
    curve = two_steps_curve(steps)
    if curve is None:
        return None
    reason = (
        "closed_form: the loss of one step shifts the thresholds at which the curve of the other step is evaluated."
    )
    source = "Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs)"
    return TradeOffPair(curve, curve.reversed(), source, (reason,))


def _cells_of(curve: AbstractTradeOff) -> FirstStep | None:
    match curve:
        case GaussianMixtureTradeOff():
            whole = MixtureInCells(curve)
            return FirstStep((whole, whole))
        case PoissonSampledAdd(base=AbstractShifted() as base, rate=rate):
            pass
        case AbstractShifted() as base:
            rate = 1.0
        case _:
            return None
    low, high = (SampledShift(base.law, shift, rate) for shift in (base.shift.lower, base.shift.upper))
    return FirstStep((low, high))
