"""Step of noisy SGD against an adversary who has the law of the data, but not the other records of a batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final

from typing_extensions import override

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import ResolvedStep
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF, rounded
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.sampling.sampled import SampledAdd

SOURCE: Final = "Leemann et al. 2023 (Gaussian membership inference privacy), Theorem 5.1"
MOST_DEGREES, MOST_NONCENTRALITY = 10**9, 10**12
"""Largest parameters for which tails of chi-square laws are available."""


def full_batches(dimension: int, susceptibility: float, effective: Fraction, steps: int) -> AbstractTradeOff:
    """Return the trade-off curve of steps that all use the whole data set.

    Parameters
    ----------
    dimension : int
        Number d of parameters of the model.
    susceptibility : float
        K of the record, >= 0; infinite for a record that is recognised for certain.
    effective : Fraction
        The effective batch size N = n + tau^2 n^2/C^2 of n records, noise tau on the mean and clipping norm C; N >= 1.
    steps : int
        Number of steps.

    Returns
    -------
    AbstractTradeOff
        The curve of Leemann et al. 2023, Theorem 5.1, for dimension `steps` d and susceptibility `steps` K.

    Raises
    ------
    UnsupportedCombination
        If the tails of the chi-square laws are not available.

    Notes
    -----
    In one step T ~ chi2'_d(N K) without the record and ((N - 1)/N) chi2'_d((N - 1) K) with the record, and the test
    rejects small T. L(T) = K/2 - (d/2) ln(1 - 1/N) - T/(2 (N - 1)) is linear in T. So the loss of all steps is the same
    function of the sum of their T. The sum of the T has the same kinds of laws, with the degrees and noncentralities
    multiplied by the number of steps. For N = 1 the batch is the record, so that everything is revealed, as for K =
    infinity.
    """
    if effective == 1 or math.isinf(susceptibility):
        return ApproximateDpTradeOff(0.0, 1.0)
    from service.privacy.trade_off.chi_square.curve import ChiSquareTradeOff
    from service.privacy.trade_off.chi_square.ratio import LinearLogRatio
    from service.privacy.trade_off.chi_square.scaled_law import ScaledChiSquare

    degrees, shift = dimension * steps, Fraction(susceptibility) * steps
    if degrees > MOST_DEGREES or effective * shift > MOST_NONCENTRALITY:
        reason = (
            f"tails of chi-square laws are computed for up to {MOST_DEGREES:.0e} degrees of freedom and a "
            f"noncentrality of at most {MOST_NONCENTRALITY:.0e}. The noncentrality is the effective batch "
            "size times the susceptibility."
        )
        raise UnsupportedCombination("mechanism", "noisy_sgd of this size", reason, ("step_curve gaussian",))
    rest = 1 - 1 / effective
    null = ScaledChiSquare(degrees, _enclosed(effective * shift))
    alternative = ScaledChiSquare(degrees, _enclosed((effective - 1) * shift), _enclosed(rest))
    ratio = LinearLogRatio(_largest_ratio(degrees, shift, rest), _enclosed(1 / (2 * (effective - 1))))
    # The variances of the laws differ, so that no Gaussian curve lies below their curve near alpha = 1.
    return ChiSquareTradeOff(null, alternative, ratio, Enclosure.point(math.inf))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipStep(ResolvedStep):
    """Step of noisy SGD under the membership adversary, with a share `sample_rate` < 1 of all records in a batch.

    `dimension` is d, `susceptibility` the K of the record (squared length of its whitened gradient), and p the sampling
    rate. The adversary decides between H0 (record not used) and the mixture (1 - p) H0 + p H1. H1 is the law of a step
    that uses the record. The direction remove has the inverse curve.
    """

    type: ClassVar[str] = "noisy_sgd"
    dimension: int
    susceptibility: float
    effective_batch_size: Fraction
    sample_rate: float

    @override
    def curves(self) -> TradeOffPair:
        seen = full_batches(self.dimension, self.susceptibility, self.effective_batch_size, 1)
        add = SampledAdd(seen, self.sample_rate)
        return TradeOffPair(add, add.reversed(), SOURCE)


def _largest_ratio(degrees: int, shift: Fraction, rest: Fraction) -> Enclosure:
    """Return the largest log-likelihood ratio of a step, K/2 - (d/2) ln(1 - 1/N), in nats.

    d is `degrees`, K = `shift` the susceptibility of the record (squared length of its whitened gradient), and N the
    effective batch size (`conversions.effective_batch_size`), with 1 - 1/N = `rest`.
    """
    log = math.log1p(-float(1 - rest)) if rest > Fraction(1, 2) else math.log(float(rest))
    # The logarithm, whose size is at least 1/N, at most doubles the rounding error of its argument.
    value = 0.5 * float(shift) - 0.5 * degrees * log
    error = value * (2 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF)
    return Enclosure(value - error, value + error, Evidence.CERTIFIED)


def _enclosed(value: Fraction) -> Enclosure:
    return Enclosure(rounded(value, -1), rounded(value, 1), Evidence.EXACT)
