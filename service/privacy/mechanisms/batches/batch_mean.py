"""Step of noisy SGD: a Gaussian step on a batch of fixed size, drawn without replacement.

Let n be the count of records of the (larger) data set, b the batch size, gamma = b/n, and sigma the noise on the sum of
gradients of length at most 1. Let mu = 1/sigma, and let N(m) be the normal law with mean m and variance 1 in units of
the noise.

**A record added or removed.** D' = D + x has n records. A batch of D' holds x with probability gamma: then it is x and
a uniform (b-1)-subset S of D. Otherwise it is a uniform b-subset of D. With y uniform in D outside S, S + y is a
uniform b-subset of D as well. Let s = sum(S), and let all expectations be over the same (S, y). Then:

    M(D) = E N(s + y),        M(D') = E [(1 - gamma) N(s + y) + gamma N(s + x)],        |x - y| <= 2.

For each (S, y) this is the pair N(0) against (1 - gamma) N(0) + gamma N(v) with |v| <= 2 mu. It results from the pair
with v = 2 mu on a line by reducing the dimension, shrinking the shift and adding noise. N(0) against (1 - gamma) N(0) +
gamma N(2 mu) is therefore at least as easy to distinguish. Learning (S, y) helps the attacker (joint convexity).
Therefore N(0) against (1 - gamma) N(0) + gamma N(2 mu) dominates M in both orders, under adaptive composition too (Zhu,
Dong, Wang 2022, Theorems 10 and 11).

The pair is attained. If all other records have the gradient -u and x has u, then s + y = -b u whatever is drawn. So
M(D), M(D') are the pair itself, in every step and in both directions. It is the pair of a Poisson-sampled Gaussian step
with noise sigma/2 and rate gamma. For b = n the smaller data set has n - 1 records for a batch. The mean over n records
is at most 2/n from the mean over n - 1 records, which u and -u attain again: N(0) against N(2 mu).

**A record replaced**, x by x'. With the same S, the batch holds the record with probability gamma; otherwise some y
stays in its place. The curve of one step (Dong, Roth, Su 2022, Theorem 4.2) is the convex hull of the pair above and of
its swapped pair: the symmetrised pair. Each of both pairs is attained, by x = u and x' = -u among other records that
are -u, or u. No single choice attains both halves at once, which the composition of the symmetrised pair with itself or
with anything else supposes. So this composition (Theorem 10) is an upper bound. The pair above, with u and -u chosen
once for all steps, is a lower bound. No theorem known here determines the truth between them. For b = n the pair is
N(0) against N(2 mu), attained by u against -u in every step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, final

from typing_extensions import override

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import (
    Attained,
    GaussianPart,
    Part,
    ResolvedStep,
    SampledGaussianPart,
)
from service.privacy.numerics.rounding import rounded
from service.privacy.trade_off.combinators.bracketed import between
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.sampling.poisson_sampled import PoissonSampledAdd
from service.privacy.trade_off.shifted.gaussian import GaussianTradeOff, gaussian_curve

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw

ADDED: Final = (
    "Zhu, Dong, Wang 2022, Theorem 11 (subsampling without replacement: the pair of replacing a record of the batch)"
)
SYMMETRISED: Final = "Dong, Roth, Su 2022, Theorem 4.2 (subsampling without replacement, min(f_p, f_p^-1)**)"
BRACKET: Final = (
    "bracket: one pair of data sets attains the lower bound in every step (Zhu, Dong, Wang 2022, "
    "Theorem 11: noisy_sgd, one record of the batch against all others). The upper bound "
    "composes the pair of a replaced record (Dong, Roth, Su 2022, Theorem 4.2; Zhu, Dong, Wang "
    "2022, Theorem 10). No pair of data sets is known to attain both halves of that pair at once."
)

LEAST_RATE: Final = 1e-200
LARGEST_RATE: Final = 0.999
"""Rates between these limits are used with their rounding error. Other rates are enclosed between two doubles."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMean(ResolvedStep):
    """Gaussian step on a batch with an exact share gamma <= 1 of all records and exact noise sigma.

    Without `symmetrised` the pair of laws is N(0) against (1 - gamma) N(0) + gamma N(2/sigma), each normal law of
    variance 1, for an added record; one choice of data sets attains it in every step. With `symmetrised` the curve is
    the convex hull of the curves of this pair and of its swapped pair, for a replaced record; each is attained in a
    single step. The module docstring has the proofs.
    """

    type: ClassVar[str] = "noisy_sgd"
    sample_rate: Fraction
    noise_multiplier: Fraction
    symmetrised: bool = False

    @override
    def curves(self) -> TradeOffPair:
        if self.sample_rate == 1:
            curve = gaussian_curve(self._shift)
            return TradeOffPair(curve, curve, SYMMETRISED)
        # Power rises with the rate, because dropping the record at random gives a batch that holds it less often.
        base = GaussianTradeOff(self._shift)
        rates = {rounded(self.sample_rate, side): None for side in (-1, 1)}
        # A rate below 1 may round up to 1.
        adds = [base if rate == 1 else PoissonSampledAdd(base, rate) for rate in rates]
        pairs = [TradeOffPair(add, add.reversed(), ADDED) for add in adds]
        add = between([pair.add for pair in pairs])
        if not self.symmetrised:
            return TradeOffPair(add, add.reversed(), ADDED)
        both = between([pair.both for pair in pairs])
        return TradeOffPair(both, both, SYMMETRISED)

    @override
    def part(self) -> GaussianPart | SampledGaussianPart | None:
        if self.sample_rate == 1:
            return GaussianPart(self._shift, (Fraction(2), self.noise_multiplier))
        if self.symmetrised:
            return None
        halved = self.noise_multiplier / 2
        return SampledGaussianPart(float(halved), float(self.sample_rate), (halved, self.sample_rate))

    @override
    def covered(self) -> Part | None:
        """Return the numbers of the sampled step for engines if its noise is a double, else None.

        The result covers a rounded sampling rate, but not rounded noise.
        """
        halved, rate = self.noise_multiplier / 2, float(self.sample_rate)
        is_known = float(halved) == halved and LEAST_RATE < rate < LARGEST_RATE
        return self.part() if is_known else super(BatchMean, self).covered()

    @override
    def rounded(self, side: int) -> BatchMean:
        if self.sample_rate == 1:
            return self
        # More noise and smaller batches reveal less, because post-processing can add noise.
        rate, noise = rounded(self.sample_rate, side), rounded(self.noise_multiplier, -side)
        return replace(self, sample_rate=Fraction(rate), noise_multiplier=Fraction(noise))

    @override
    def attained(self) -> Attained | None:
        if self.sample_rate == 1 or not self.symmetrised:
            return None
        return Attained(replace(self, symmetrised=False), BRACKET)

    @override
    def loss_law(self) -> LossLaw:
        if self.sample_rate == 1 or not self.symmetrised:
            return super(BatchMean, self).loss_law()
        reason = (
            "the method needs one distribution of the loss, and the larger of two profiles has none in "
            "closed form. Two theorems enclose several steps."
        )
        raise UnsupportedCombination(
            "method",
            "an approximation for noisy_sgd under replace_one",
            reason,
            ("auto", "closed_form", "discretised", "add_or_remove_one"),
        )

    @property
    def _shift(self) -> Enclosure:
        """Enclosure of 2/sigma, the shift of a full batch at the noise sigma, between doubles."""
        exact = 2 / self.noise_multiplier
        return Enclosure(rounded(exact, -1), rounded(exact, 1), Evidence.EXACT)
