"""Step of a mechanism on a Poisson sample of the records."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, cast, final

from typing_extensions import override

from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import (
    ATOM_DIGITS,
    AbstractMechanism,
    AbstractStep,
    LaplacePart,
    Part,
    SampledGaussianPart,
    Steps,
)
from service.privacy.mechanisms.batches.shift_laws import BinomialHits
from service.privacy.mechanisms.batches.shifted_mixture import ShiftedMixtureStep, hits_step
from service.privacy.mechanisms.caveats import MechanismHazard, Premise
from service.privacy.mechanisms.discrete.discrete_gaussian import DiscreteGaussian
from service.privacy.mechanisms.discrete.discrete_laplace import DiscreteLaplace
from service.privacy.mechanisms.discrete.local import LocalStep
from service.privacy.mechanisms.discrete.randomized_response import RandomizedResponse
from service.privacy.mechanisms.discrete.report_noisy_max import PermuteAndFlip, ReportNoisyMax
from service.privacy.mechanisms.discrete.skellam import Skellam
from service.privacy.mechanisms.discrete.staircase import Staircase
from service.privacy.mechanisms.discrete.unary_encoding import UnaryEncoding
from service.privacy.mechanisms.domain import SAMPLE_RATE, check_fields
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.mixture import refuse_mixtures
from service.privacy.mechanisms.neighbours import ADD_OR_REMOVE, ONE_ADDED, ONE_REPLACED, REPLACE, ZERO_OUT, Neighbours
from service.privacy.trade_off.enclosed.ulps import quotient
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.sampling.poisson_sampled import PoissonSampledAdd
from service.privacy.trade_off.shifted.gaussian import GaussianTradeOff
from service.privacy.trade_off.shifted.laplace import LaplaceTradeOff

SAMPLED_DISCRETE: Final = (
    RandomizedResponse,
    UnaryEncoding,
    Staircase,
    DiscreteLaplace,
    DiscreteGaussian,
    Skellam,
    ReportNoisyMax,
    PermuteAndFlip,
)
"""Mechanisms with listed losses that know their pair on a Poisson sample."""
LARGE_SAMPLE_RATE: Final = 0.1
LARGEST_GROUP: Final = 64
"""Largest count of records of one person, each of which is drawn or not."""
SAMPLING_IS_POISSON: Final = Premise(
    "sampling_is_poisson",
    "Every record enters every batch independently with the stated probability. Batches are secret.",
    about="sampling",
)
POISSON_SAMPLING_ASSUMED: Final = MechanismHazard(
    code="poisson_sampling_assumed",
    text="These answers do not cover batches from shuffled epochs or of fixed size, which can be much "
    "easier to attack. Describe such batches with another `sampling` of dpsgd.",
    about="sampling",
)
LARGE_SAMPLE_RATE_STATED: Final = MechanismHazard(
    code="large_sample_rate",
    text=f"A sample_rate of {LARGE_SAMPLE_RATE:g} or more is unusual in training. Check that the rate is "
    "the batch size divided by the number of records in the whole data set.",
    about="sampling",
)
LITTLE_NOISE, RATE_LIKE_NOISE = 0.1, 0.3
COLUMNS_MAY_BE_EXCHANGED: Final = MechanismHazard(
    code="columns_may_be_exchanged",
    text=f"A noise_multiplier below {LITTLE_NOISE:g} with a sample_rate of {RATE_LIKE_NOISE:g} or more "
    "protects almost nothing. With both values exchanged, the run is typical. Check the order of "
    "the columns in the history.",
    about="sampling",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampled(AbstractStep):
    """Step of `mechanism` (Gaussian or Laplace) on a sample that has each record with probability `sample_rate`.

    Notes
    -----
    u is a unit vector, q the sampling rate and mu = 1/sigma. N(x) is the normal law of mean x and variance 1. One pair
    of data sets attains the curve in every step and in both directions: all other records add nothing to any query, and
    the record moves the query by its whole sensitivity if it is drawn. So the laws are the pair itself. In the add
    direction the hypothesis without the record is that of `mechanism`. A composition keeps this orientation in all its
    steps. An empty record adds nothing whether it is drawn or not, so that `zero_out` has the same pair.

    Gaussian steps have further pairs. If k records are added or zeroed, with u each, Binom(k, q) of them are drawn.
    N(0) against sum_i Binom(k, q)(i) N(i mu) dominates, and is attained as above (Ganesh 2024).

    If one record is replaced, (1 - q) N(0) + q N(-mu) against (1 - q) N(0) + q N(mu) dominates (Lebeda, Regehr, Kamath,
    Steinke 2025, Proposition 13). Proof: let eps >= 0, e^{eps'} = 1 + (e^eps - 1)/q and beta = e^{eps - eps'}. Consider
    the profile at eps of (1-q) N(0) + q N(g) against (1-q) N(0) + q N(h). It is q times the profile at eps' of N(g)
    against (1 - beta) N(0) + beta N(h) (Balle, Barthe, Gaboardi 2018, Theorem 2). Seen from g the two centres are at
    distances of at most 1 and 2. A mixture over vectors is dominated by the mixture over their lengths, and rises in
    each length (Choquette-Choo et al. 2024, Corollary 4.7). So g = -h at full length is worst. For eps < 0 the
    hypotheses are swapped. The pair u against -u, where all other records add nothing, attains the curve in every step.
    """

    type: ClassVar[str] = "poisson_sampled"
    sample_rate: Annotated[float, SAMPLE_RATE]
    mechanism: AbstractMechanism

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_mixtures(self.type, (self.mechanism,))
        if not isinstance(self.mechanism, (Gaussian, Laplace, *SAMPLED_DISCRETE)):
            raise UnsupportedCombination(
                "mechanism",
                f"poisson_sampled of {self.mechanism.type}",
                "worst-case curves of sampled steps are known only for these mechanisms.",
                (Gaussian.type, Laplace.type, *(kind.type for kind in SAMPLED_DISCRETE)),
            )

    @property
    @override
    def inner(self) -> tuple[AbstractMechanism, ...]:
        return (self.mechanism,)

    @property
    @override
    def premises(self) -> tuple[Premise, ...]:
        return (SAMPLING_IS_POISSON,) if self.sample_rate < 1 else ()

    @property
    @override
    def hazards(self) -> tuple[MechanismHazard, ...]:
        if self.sample_rate == 1:
            return ()
        found = [POISSON_SAMPLING_ASSUMED]
        if self.sample_rate >= LARGE_SAMPLE_RATE:
            found.append(LARGE_SAMPLE_RATE_STATED)
        known = isinstance(self.mechanism, Gaussian | Laplace)
        if known and self.sample_rate >= RATE_LIKE_NOISE and self._base.noise_multiplier < LITTLE_NOISE:
            found.append(COLUMNS_MAY_BE_EXCHANGED)
        return tuple(found)

    @override
    def elementary_steps(self) -> Steps:
        return self.mechanism.elementary_steps() if self.sample_rate == 1 else ((self, 1),)

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        if not isinstance(self.mechanism, Gaussian | Laplace):
            return self._discrete_under(self.mechanism, neighbours)
        if neighbours == ONE_ADDED or neighbours == Neighbours(ZERO_OUT):
            return self
        several = neighbours.records > 1
        if isinstance(self._base, Laplace) or (several and neighbours.relation == REPLACE):
            what = f"poisson_sampled {self._base.type} with sample_rate < 1"
            reason = (
                (
                    "no dominating pair is known for several replaced records, because a batch may contain some "
                    "of the old and some of the new records."
                )
                if several and neighbours.relation == REPLACE
                else (
                    "no dominating pair is known for Laplace noise when batches sample a replaced record or "
                    "several records."
                )
            )
            fewer = ("one record",) if several and isinstance(self._base, Laplace) else ()
            others = (ADD_OR_REMOVE, ZERO_OUT) if neighbours.relation == REPLACE else ()
            raise neighbours.refused(what, reason, (*fewer, *others))
        if neighbours.records > LARGEST_GROUP:
            reason = f"mixtures of more than {LARGEST_GROUP} shifts are not supported."
            raise neighbours.refused(
                "poisson_sampled with sample_rate < 1", reason, (f"up to {LARGEST_GROUP} records",)
            )
        noise, rate = Fraction(self._base.noise_multiplier), Fraction(self.sample_rate)
        if neighbours.relation == REPLACE:
            weights = (1 - self.sample_rate, self.sample_rate)  # the first weight is correctly rounded
            law = BinomialHits(1, rate)
            return ShiftedMixtureStep(
                noise_multiplier=noise, shifts=(0.0, 1.0), weights=weights, mirrored=True, law=law, is_exact=True
            )
        return hits_step(noise, BinomialHits(neighbours.records, rate))

    def _discrete_under(self, base: AbstractMechanism, neighbours: Neighbours) -> AbstractStep:
        known = base.sampled_under(self.sample_rate, neighbours) if isinstance(base, AbstractStep) else None
        if known is None:
            reason = (
                "no dominating pair is known for such samples when a record is replaced, for several records or "
                "coordinates, and for Gumbel or Laplace noise on scores."
            )
            what = f"poisson_sampled {base.type} with sample_rate < 1"
            if isinstance(base, LocalStep):
                reason = "no list of losses is known for reports that reveal everything, or for so many reports."
                raise neighbours.refused(what, reason, ("false_bit > 0 and true_bit < 1", "fewer records"))
            raise neighbours.refused(what, reason, ("one record", ADD_OR_REMOVE, ZERO_OUT))
        return known

    def _listed(self) -> AbstractStep | None:
        """Return the step for one record if the mechanism has listed losses; None for Gaussian and Laplace noise."""
        if isinstance(self.mechanism, Gaussian | Laplace):
            return None
        return self.under(ONE_REPLACED if isinstance(self.mechanism, LocalStep) else ONE_ADDED)

    @override
    def curves(self) -> TradeOffPair:
        listed = self._listed()
        if listed is not None:
            return listed.curves()
        base = self._base
        shift = quotient(1.0, base.noise_multiplier)
        curve = GaussianTradeOff(shift) if isinstance(base, Gaussian) else LaplaceTradeOff(shift)
        add = PoissonSampledAdd(curve, self.sample_rate)
        source = (
            "Zhu, Dong, Wang 2022, Theorem 11 (dominating pairs of Poisson sampling); Kaissis et al. 2023, section 4"
        )
        return TradeOffPair(add, add.reversed(), source)

    @override
    def loss_atoms(self) -> tuple[tuple[float, float], ...]:
        # H0 is the law of the base without the record, whatever the rate. ln(1 - p + p e^b) may cancel for both losses.
        if not isinstance(self.mechanism, Gaussian | Laplace):
            return ()
        masses = tuple(mass for _, mass in self._base.loss_atoms())
        if not masses:
            return ()
        import mpmath

        many_digits: Any = mpmath
        with many_digits.workdps(ATOM_DIGITS):
            shift = many_digits.mpf(1) / self._base.noise_multiplier
            growths = [self.sample_rate * many_digits.expm1(base) for base in (-shift, shift)]
            losses = [float(many_digits.log1p(growth)) for growth in growths]
        return tuple(zip(losses, masses, strict=True))

    @override
    def part(self) -> Part | None:
        listed = self._listed()
        if listed is not None:
            return listed.part()
        base = self._base
        if isinstance(base, Gaussian):
            return SampledGaussianPart(base.noise_multiplier, self.sample_rate)
        return LaplacePart(1 / base.noise_multiplier, self.sample_rate)

    @property
    def _base(self) -> Gaussian | Laplace:
        return cast("Gaussian | Laplace", self.mechanism)  # checked when the value was built
