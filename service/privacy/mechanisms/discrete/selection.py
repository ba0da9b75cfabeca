"""Choices among candidates with noisy scores: the path lemma, and what its mechanisms share.

Path lemma. Let laws M_s, 0 <= s <= 1, join the outputs of a mechanism on two data sets, and let M_s and M_t be
(eta |s - t|)-DP for all s, t. Then no attack on M_0 against M_1 is more powerful than the best one on Laplace noise of
scale 1 that is shifted by eta.

Proof. Let G(s) be the probability that a fixed (randomised) test rejects under M_s. From G(t) <= e^{eta |s - t|} G(s),
and the same inequality for 1 - G, the function G is Lipschitz, and |G'| <= eta min(G, 1 - G) almost everywhere. Let F
be the distribution function of the Laplace law of scale 1, for which F' = min(F, 1 - F). So s -> F^-1(G(s)) has slopes
of at most eta, and G(1) <= F(F^-1(G(0)) + eta). The right side is the largest power of a test between both Laplace
laws at the false positive rate G(0). The hypotheses may be swapped, because the path may be reversed. Q.E.D.

If |G'| <= eta G (1 - G), the same proof holds with the logistic law, for which F' = F (1 - F). It bounds the power by
that of the exponential mechanism of `bounded_range.py` with epsilon = eta.

Paths. The scores of all candidates move linearly from those of the first data set to those of the second. Given the
noise of all other candidates, the chance of an outcome is the chance that one noise exceeds a threshold. If the scores
have moved by at most x, the threshold has moved by at most 2 x, or x if all scores move in one direction. For
exponential and for Laplace noise of scale b, the chance changes by a factor of at most e^{2 x/b}. The reason is that
S(t) <= e^{y/b} S(t + y) for the survival function S of both. So eta = 2 Delta/b, or Delta/b for monotone scores. For
Gumbel noise the probabilities are proportional to e^{u/b}, and G' = G (1 - G) (mean of u' where the test rejects - mean
of u' elsewhere)/b.

Attained. With two candidates and exponential noise, the difference of both noises is Laplace noise of scale b, and the
gap of the scores changes by 2 Delta (monotone: Delta). With a gap g before, the test "first candidate" has the rate
F(g/b) and the power F(g/b + eta): every rate has data that attain the bound. Two different rates have different data,
so several such steps are enclosed by two theorems, unless only one step depends on its scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.mechanisms.abstract import ATOM_DIGITS, AbstractStep, Attained, LaplacePart, ResolvedStep, Steps
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.discrete.atomic_step import AtomicStep
from service.privacy.mechanisms.domain import NOISE_MULTIPLIER
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF, rounded
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.laplace import LaplaceTradeOff

SCORES_MOVE_LITTLE: Final = Premise(
    "scores_move_little",
    "One record changes the score of every candidate by no more than the stated sensitivity, under the neighbouring "
    "relation of the threat model. Every choice draws fresh secret noise, and only the choice is released.",
    about="scores",
)
LARGEST_EXPONENT: Final = 600.0
"""Largest exponent of a term in the chance of an attack, and largest shift of a known attack."""
SEVERAL: Final = (
    "bracket: two candidates with a fixed gap of scores attain the lower bound in every step. The upper bound composes "
    "the pairs of Laplace noise that bound every single step. Every false positive rate has its own worst scores."
)


class PathStep(ResolvedStep):
    """Step that is no easier to attack than Laplace noise of scale 1 whose shift is `eta`.

    The path lemma proves this: laws M_s, 0 <= s <= 1, lead from one data set to the other, and M_s and M_t are (eta |s
    - t|)-DP for all s and t. A subclass defines `curves`.
    """

    __slots__ = ()
    eta: Fraction

    @property
    def shift(self) -> Enclosure:
        """Enclosure between two doubles of the shift `eta`, in units of the scale of the noise."""
        return Enclosure(rounded(self.eta, -1), rounded(self.eta, 1), Evidence.EXACT)

    @final
    @override
    def part(self) -> LaplacePart:
        return LaplacePart(float(self.eta), 1.0)

    @final
    @override
    def rounded(self, side: int) -> AbstractStep:
        """Return a step of Laplace noise with a double scale that is no easier (side -1) or no harder to attack.

        If the scale is out of the domain of Laplace noise, the result is a pure DP step with the parameter `eta`
        (rounded up) or 0.
        """
        scale = rounded(1 / self.eta, -side)
        if scale in NOISE_MULTIPLIER:
            return Laplace(noise_multiplier=scale)
        return PureDp(epsilon=rounded(self.eta, 1) if side > 0 else 0.0)

    @final
    @override
    def loss_atoms(self) -> tuple[tuple[float, float], ...]:
        import mpmath

        many_digits: Any = mpmath
        with many_digits.workdps(ATOM_DIGITS):
            shift = many_digits.mpf(self.eta.numerator) / self.eta.denominator
            return ((-float(shift), 0.5), (float(shift), float(many_digits.exp(-shift) / 2)))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GapStep(AtomicStep):
    """Choice between two candidates with exponential noise, whose gap of scores grows from `gap` to `gap` + `eta`.

    The gap and eta are in units of the scale of the noise. The outcome is a bit with two losses.
    """

    type: ClassVar[str] = "report_noisy_max"
    theorem = "two candidates with a fixed gap of scores"
    eta: float
    gap: float

    @override
    def atomic_law(self) -> AtomicLaw:
        logs = [[_log_tail(-gap), _log_tail(gap)] for gap in (self.gap, self.gap + self.eta)]
        absent, present = np.array(logs[0]), np.array(logs[1])
        losses = present - absent
        size = float(np.abs(logs).max()) + abs(self.gap) + self.eta
        position = 4 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF * (1 + size)
        return AtomicLaw(losses, losses[:-1] - losses[1:], absent, present, 2 * position, 2 * position)


def _log_tail(t: float) -> float:
    """Return ln P(X > t) for a Laplace variable X of scale 1."""
    return math.log(0.5) - t if t >= 0 else math.log1p(-0.5 * math.exp(t))


def gap_choices(eta: Fraction, count: int) -> tuple[Steps, ...]:
    """Return runs of `count` choices between two candidates, one run for each known attack on the gap of their scores.

    The gap grows by `eta`, in units of the scale of the noise.
    """
    shift = min(rounded(eta, -1), LARGEST_EXPONENT)  # a record may change scores by less than it could
    if shift <= 1e-9:
        return (((PureDp(epsilon=0.0), count),),)
    return tuple(((GapStep(eta=shift, gap=-share * shift), count),) for share in (0.5, 1.0))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TightPathStep(PathStep):
    """Selection mechanism that is at most as easy to attack as Laplace noise of scale 1, shifted by `eta` (path lemma).

    Each false positive rate has data sets of its own that attain this bound.

    Attributes
    ----------
    eta : Fraction
        Exact shift of the Laplace noise of scale 1.
    source : str
        Theorem of the pair, as in answers.
    """

    type: ClassVar[str] = "report_noisy_max"
    eta: Fraction
    source: str

    @override
    def curves(self) -> TradeOffPair:
        curve = LaplaceTradeOff(self.shift)
        return TradeOffPair(curve, curve, self.source)

    @override
    def attained(self) -> Attained:
        (first, *_) = gap_choices(self.eta, 1)
        return Attained(first[0][0], SEVERAL, choices=self._choices, may_come_last=True)

    def _choices(self, count: int) -> tuple[Steps, ...]:
        return gap_choices(self.eta, count)
