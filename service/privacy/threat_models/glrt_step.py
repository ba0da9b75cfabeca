"""Step of a run under the GLRT adversary, and the curves of a whole run of Gaussian steps.

The adversary of the generalised likelihood ratio test (GLRT) does not know the direction of the record's answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar, Final, final

from typing_extensions import override

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import ResolvedStep
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.enclosed.ulps import above, below
from service.privacy.trade_off.pair import TradeOffPair

LARGEST_NONCENTRALITY: Final = 10**12
LARGEST_SERIES: Final = 100.0
"""Largest noncentrality for which both laws are also compared term by term."""
SOURCE: Final = "Kaissis et al. 2024 (GLRT), Theorems 1 and 2"
SAMPLED_SOURCE: Final = f"{SOURCE}; Zhu, Dong, Wang 2022, Theorem 11 (Poisson sampling)"
LIMIT_SOURCE: Final = "Kaissis et al. 2024 (GLRT), Equation 44"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GlrtStep(ResolvedStep):
    """Gaussian step under the GLRT adversary in `dimension` dimensions, on a Poisson sample if `sample_rate` < 1.

    The adversary of the generalised likelihood ratio test (GLRT) does not know the direction of the record's answer.
    """

    type: ClassVar[str] = "glrt"
    dimension: int
    noise_multiplier: float
    sample_rate: float

    @override
    def curves(self) -> TradeOffPair:
        """Return the trade-off curves of the statistic of this step, the length of the released vector.

        The laws are P0 without the record against (1 - p) P0 + p P1 at the sampling rate p, where P1 is the law with
        the record. The contribution of one record has length 1.
        """
        alone = exact_curves(self.dimension, noncentrality_of(((self, 1),)))
        if self.sample_rate == 1:
            return alone
        from service.privacy.trade_off.sampling.sampled import SampledAdd

        add = SampledAdd(alone.add, self.sample_rate)
        return TradeOffPair(add, add.reversed(), SAMPLED_SOURCE, alone.notes)


GlrtSteps = Sequence[tuple[GlrtStep, int]]


def noncentrality_of(steps: GlrtSteps) -> Enclosure:
    """Return the noncentrality lambda = sum of counts/noise_multiplier^2 of Gaussian steps, correctly rounded.

    Raises UnsupportedCombination above 1e12.
    """
    exact = sum((Fraction(count) / Fraction(step.noise_multiplier) ** 2 for step, count in steps), Fraction(0))
    if exact > LARGEST_NONCENTRALITY:
        raise UnsupportedCombination(
            "mechanism",
            "glrt with so little noise",
            "above steps/noise_multiplier^2 = 1e12 the direction does not remain unknown.",
            ("worst_case",),
        )
    nearest = float(exact)
    if Fraction(nearest) == exact:
        return Enclosure.point(nearest)
    return Enclosure(below(nearest), above(nearest), Evidence.EXACT)


def exact_curves(dimension: int, noncentrality: Enclosure) -> TradeOffPair:
    """Return the trade-off curve of the generalised likelihood ratio test (add) and its inverse (remove).

    The statistic has chi-square laws: `dimension` is the number of degrees of freedom, and `noncentrality` belongs to
    the law with the record.
    """
    # Imported at first use, because checking the fields of a request does not need these modules.
    from service.privacy.trade_off.chi_square.curve import ChiSquareTradeOff
    from service.privacy.trade_off.chi_square.ratio import BesselLogRatio
    from service.privacy.trade_off.chi_square.scaled_law import ScaledChiSquare

    degrees = float(dimension)
    # R has at most the power of the worst case of shift sqrt(lambda), and approaches this power for rare false
    # positives: -ln SF of the laws is (sqrt t - c)^2/2 up to multiples of ln t, with c = 0 and c = sqrt(lambda).
    shift = Enclosure(below(math.sqrt(noncentrality.lower)), above(math.sqrt(noncentrality.upper)), Evidence.CERTIFIED)
    null, alternative = ScaledChiSquare(degrees, Enclosure.point(0.0)), ScaledChiSquare(degrees, noncentrality)
    gain = partial(_gain, degrees, noncentrality) if noncentrality.upper <= LARGEST_SERIES else None
    add = ChiSquareTradeOff(null, alternative, BesselLogRatio(degrees, noncentrality), shift, gain)
    reason = (
        f"closed_form: central against noncentral chi-square law, with {dimension} degrees of freedom "
        f"and noncentrality {noncentrality.upper:.6g}."
    )
    return TradeOffPair(add, add.reversed(), SOURCE, (reason,))


def _gain(degrees: float, noncentrality: Enclosure, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (lower, upper) bounds of ln(P1(T > t) - P0(T > t)) for a chi-square statistic T at each t, shape (n,).

    T has `degrees` degrees of freedom. P0 and P1 are its laws without and with the record. Under P1 the law has the
    given noncentrality, and the value rises with it.
    """
    from service.privacy.numerics.chi_square.gain import log_tail_gain

    low, high = log_tail_gain(degrees, noncentrality.upper, t)
    if noncentrality.lower < noncentrality.upper:
        low, _ = log_tail_gain(degrees, noncentrality.lower, t)
    return low, high


def limit_curves(dimension: int, noncentrality: Enclosure) -> TradeOffPair:
    """Return approximate trade-off curves of the generalised likelihood ratio test in the limit of many dimensions.

    With the record, the chi-square statistic with `dimension` degrees of freedom has the given noncentrality, of which
    the upper bound is used. The curves are not bounds.
    """
    from service.privacy.trade_off.chi_square.unequal_normals import UnequalNormalsTradeOff

    add = UnequalNormalsTradeOff(dimension, noncentrality.upper)
    reason = (
        f"clt: limit of many dimensions, with normal laws of means 0 and {add.mean:.6g} and standard "
        f"deviations 1 and {add.deviation:.6g}. The result is an approximation without bounds "
        "(/errata#glrt-equation-35)."
    )
    return TradeOffPair(add, add.reversed(), LIMIT_SOURCE, (reason,))


def no_engine(requested: str, supported: tuple[str, ...]) -> UnsupportedCombination:
    """Return the error for a composition method `requested` that does not cover the GLRT adversary.

    This adversary uses the generalised likelihood ratio test (GLRT). `supported` lists the methods that cover it.
    """
    return UnsupportedCombination("method", requested, "no engine covers the step under this threat model.", supported)
