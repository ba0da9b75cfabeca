"""One step of a mechanism on a Poisson sample of the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, cast, final

from typing_extensions import override

from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import (
    ATOM_DIGITS,
    AbstractMechanism,
    AbstractStep,
    LaplacePart,
    SampledGaussianPart,
    Steps,
)
from service.privacy.mechanisms.caveats import Hazard, Premise
from service.privacy.mechanisms.domain import SAMPLE_RATE, check_fields
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.mixture import refuse_mixtures
from service.privacy.mechanisms.neighbours import ADD_OR_REMOVE, REPLACE, ZERO_OUT, Neighbours
from service.privacy.trade_off.enclosed.ulps import quotient
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.sampling.poisson_sampled import PoissonSampledAdd
from service.privacy.trade_off.shifted.gaussian import GaussianTradeOff
from service.privacy.trade_off.shifted.laplace import LaplaceTradeOff

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw

LARGE_SAMPLE_RATE: Final = 0.1
SAMPLING_IS_POISSON: Final = Premise(
    "sampling_is_poisson",
    "Every record enters every batch independently with the stated probability, and batches are secret.",
    about="sampling",
)
POISSON_SAMPLING_ASSUMED: Final = Hazard(
    code="poisson_sampling_assumed",
    text="Batches from shuffled epochs or of fixed size are not covered, and the attack on them can be far stronger "
    "than answered here: dpsgd has them as other kinds of `sampling`.",
    about="sampling",
)
LARGE_SAMPLE_RATE_STATED: Final = Hazard(
    code="large_sample_rate",
    text=f"A sample_rate of {LARGE_SAMPLE_RATE:g} or more is unusual in training: check that it is the batch size over "
    "the number of records in the whole data set.",
    about="sampling",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampled(AbstractStep):
    """Each record takes part with probability `sample_rate`, independently; then one step of `mechanism`, Gaussian or
    Laplace.

    Attained in every step and both directions by one pair of data sets: all other records add nothing to any query, and
    the record, where it is drawn, moves it by its whole sensitivity, so that the laws are the pair itself (add: the
    hypothesis without the record is the base's; a composition keeps this orientation in all its steps).
    """

    type: ClassVar[str] = "poisson_sampled"
    sample_rate: Annotated[float, SAMPLE_RATE]
    mechanism: AbstractMechanism

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_mixtures(self.type, (self.mechanism,))
        if not isinstance(self.mechanism, Gaussian | Laplace):
            raise UnsupportedCombination(
                "mechanism",
                f"poisson_sampled of {self.mechanism.type}",
                "a sampled step has known worst-case curves only for these bases.",
                (Gaussian.type, Laplace.type),
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
    def hazards(self) -> tuple[Hazard, ...]:
        return (
            ()
            if self.sample_rate == 1
            else (
                (POISSON_SAMPLING_ASSUMED, LARGE_SAMPLE_RATE_STATED)
                if self.sample_rate >= LARGE_SAMPLE_RATE
                else (POISSON_SAMPLING_ASSUMED,)
            )
        )

    @override
    def elementary_steps(self) -> Steps:
        return self.mechanism.elementary_steps() if self.sample_rate == 1 else ((self, 1),)

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        if neighbours.relation == REPLACE or neighbours.records > 1:
            raise neighbours.refused(
                "poisson_sampled with sample_rate < 1", "no dominating pair is known for it.", (ADD_OR_REMOVE, ZERO_OUT)
            )
        return self

    @override
    def curves(self) -> TradeOffPair:
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
        # H0 is the law of the base without the record, whatever the rate. ln(1 - p + p e^b) may cancel at either end.
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
    def part(self) -> SampledGaussianPart | LaplacePart:
        base = self._base
        if isinstance(base, Gaussian):
            return SampledGaussianPart(base.noise_multiplier, self.sample_rate)
        return LaplacePart(1 / base.noise_multiplier, self.sample_rate)

    @override
    def loss_law(self) -> LossLaw:
        from service.privacy.losses.steps import laplace_loss, sampled_gaussian_loss

        base = self._base
        if isinstance(base, Gaussian):
            return sampled_gaussian_loss(base.noise_multiplier, self.sample_rate)
        return laplace_loss(1 / base.noise_multiplier, self.sample_rate)

    @property
    def _base(self) -> Gaussian | Laplace:
        return cast("Gaussian | Laplace", self.mechanism)  # checked when the value was built
