"""Abstract base classes of mechanisms: frozen values that describe a release, and nothing about its attackers.

- `AbstractMechanism` lists its elementary steps with their counts.
- `AbstractStep` is an elementary step with its exact trade-off curves and its part, the numbers that engines compose.
- `ResolvedStep` is a step whose curves hold under the requested neighbouring relation. `under` resolves the others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, TypeAlias, final

from typing_extensions import override

from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.batches.shift_laws import ExactShifts, StatedWeights
from service.privacy.mechanisms.caveats import Caveats, MechanismHazard, Premise, in_order
from service.privacy.mechanisms.domain import TOTAL_STEPS, check_fields
from service.privacy.mechanisms.neighbours import ONE_ADDED, Neighbours
from service.privacy.trade_off.pair import TradeOffPair

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw
    from service.privacy.trade_off.atomic_law import AtomicLaw


class AbstractMechanism(ABC):
    """Frozen, final description of a mechanism.

    `type` is the name of the mechanism in requests, and the fields have the names of requests. A subclass defines
    `elementary_steps`, and the premises and hazards that it adds.
    """

    __slots__ = ()
    type: ClassVar[str]
    type_premises: ClassVar[tuple[Premise, ...]] = ()
    """Premises of every mechanism of this type."""
    type_hazards: ClassVar[tuple[MechanismHazard, ...]] = ()
    """Hazards of every mechanism of this type."""

    def __post_init__(self) -> None:
        """Check the values of the fields; raise OutOfDomain for the first invalid one."""
        check_fields(self)

    @abstractmethod
    def elementary_steps(self) -> Steps:
        """Return the elementary steps of the mechanism as pairs (step, count), in order of first appearance.

        Equal steps are merged. An elementary step has its own pair of laws, without and with the record.
        """

    @property
    def inner(self) -> tuple[AbstractMechanism, ...]:
        """Mechanisms that this mechanism consists of; their premises and hazards are also its own.

        A hazard is a known way in which a run is less private than described.
        """
        return ()

    @property
    def premises(self) -> tuple[Premise, ...]:
        """Premises (conditions) of answers about this mechanism, without the premises about its `inner` mechanisms."""
        return self.type_premises

    @property
    def hazards(self) -> tuple[MechanismHazard, ...]:
        """Hazards: known ways in which such mechanisms are less private than they appear.

        The hazards of the `inner` mechanisms are not included.
        """
        return self.type_hazards

    @final
    def caveats(self) -> Caveats:
        """Return the premises and hazards of this mechanism and of all its parts.

        A hazard is a known way in which a run is less private than described.
        """
        if not self.inner:
            caused = self.hazards
            return _caveats(self.premises, caused, (caused,))
        premises: list[Premise] = []
        hazards: list[MechanismHazard] = []
        ends: list[tuple[MechanismHazard, ...]] = []
        for node, has_parts in _nodes_of(self):
            premises += node.premises
            caused = node.hazards
            hazards += caused
            if not has_parts:
                ends.append(caused)
        return _caveats(tuple(premises), tuple(hazards), tuple(dict.fromkeys(ends)))


@lru_cache(maxsize=64)  # mechanisms of one type have equal caveats, whatever their parameters
def _caveats(
    premises: tuple[Premise, ...], hazards: tuple[MechanismHazard, ...], ends: tuple[tuple[MechanismHazard, ...], ...]
) -> Caveats:
    """Return the premises and hazards of a mechanism, each once, in order.

    `ends` has the hazards of every innermost mechanism. A hazard that counts only `alone` is kept if all innermost
    mechanisms cause it. A hazard is a known way in which a run is less private than described.
    """
    kept = (hazard for hazard in hazards if not hazard.alone or all(hazard in caused for caused in ends))
    return Caveats(in_order(premises), in_order(kept))


def _nodes_of(mechanism: AbstractMechanism) -> list[tuple[AbstractMechanism, bool]]:
    """Return `mechanism` and all mechanisms inside it, innermost first, each with whether it contains others."""
    inner = mechanism.inner
    different = dict.fromkeys(inner) if len(inner) > 1 else inner
    return [*(node for part in different for node in _nodes_of(part)), (mechanism, bool(inner))]


class StepPart:
    """Numbers of a step that composition engines need.

    Each kind of step has a subclass (`Part`), which adds its numbers, defines `spread`, and overrides the properties
    that apply to it. `decays` states whether e^{K(s)}, for the cumulant generating function K of the loss, decays along
    every inversion contour, because the loss has a density.
    """

    __slots__ = ()
    decays: ClassVar[bool] = True
    """Whether the transform of the loss decays along every contour, because the loss has a density."""
    has_finite_losses: ClassVar[bool] = False
    """Whether the loss has finitely many values."""

    @property
    def listed_law(self) -> AtomicLaw | None:
        """Values and masses of the loss of an `AtomsPart`, or None for other steps."""
        return None

    @property
    def laplace(self) -> tuple[float, float] | None:
        """Largest loss without sampling (nats) and sampling rate of a Laplace step, or None for other steps."""
        return None

    @property
    def jump(self) -> tuple[float, float] | None:
        """Ratio of the noise to the largest shift of the release, and the probability that the record is sampled.

        Such a step has a rare large loss, when the record is sampled. The property is None for steps without a sampling
        rate and without several shifts.
        """
        return None

    @property
    def noise_between_shifts(self) -> float:
        """Ratio of the noise of the release to the smallest distance of two of its shifts; infinite without two shifts.

        Steps with several shifts are sampled Gaussian steps and mixtures.
        """
        return math.inf

    @property
    def mixture_terms(self) -> int:
        """Number of shifts of a `GaussianMixturePart`; 0 for any other step."""
        return 0

    @property
    def gaussian_shift(self) -> Enclosure | None:
        """Parameter mu of a step that composes like N(0, 1) against N(mu, 1), or None for other steps."""
        return None

    @property
    def exact_shifts(self) -> ExactShifts | None:
        """Step as a mixture of shifted Gaussians without any rounding, or None for other steps."""
        return None


@dataclass(frozen=True, slots=True)
class GaussianPart(StepPart):
    """Numbers of a Gaussian step N(0, 1) against N(mu, 1); the squares of mu add up in a composition.

    Attributes
    ----------
    shift : Enclosure
        mu, the distance of both means in standard deviations.
    quotient : tuple
        Numerator and denominator of a quotient that is exactly mu.
    """

    shift: Enclosure
    quotient: tuple[float | Fraction, float | Fraction]

    @property
    def spread(self) -> float:
        """Standard deviation of the privacy loss under either hypothesis, nats, rounded up."""
        return self.shift.upper

    @property
    @override
    def gaussian_shift(self) -> Enclosure:
        return self.shift

    @property
    @override
    def exact_shifts(self) -> ExactShifts:
        above, below = self.quotient
        return ExactShifts(Fraction(below), StatedWeights((Fraction(1),)), (Fraction(above),))


@dataclass(frozen=True, slots=True)
class SampledGaussianPart(StepPart):
    """Numbers of a Gaussian step on a Poisson sample: N(0, 1) against (1 - p) N(0, 1) + p N(1/sigma, 1).

    Attributes
    ----------
    noise_multiplier : float
        sigma, the noise over the contribution of one record.
    sample_rate : float
        p, the probability that the record is sampled.
    exact : (Fraction, Fraction) or None
        sigma and p without rounding, if the doubles above are only the nearest to the exact numbers.
    """

    noise_multiplier: float
    sample_rate: float
    exact: tuple[Fraction, Fraction] | None = None

    @property
    def spread(self) -> float:
        """Approximate standard deviation of the privacy loss (nats) under either hypothesis, at most 1."""
        return min(self.sample_rate / self.noise_multiplier, 1.0)

    @property
    def rate_rest(self) -> float:
        """Exact sampling rate minus the double nearest to the rate."""
        return 0.0 if self.exact is None else float(self.exact[1] - Fraction(self.sample_rate))

    @property
    @override
    def noise_between_shifts(self) -> float:
        return self.noise_multiplier

    @property
    @override
    def jump(self) -> tuple[float, float]:
        return self.noise_multiplier, self.sample_rate

    @property
    @override
    def exact_shifts(self) -> ExactShifts:
        noise, rate = self.exact or (Fraction(self.noise_multiplier), Fraction(self.sample_rate))
        return ExactShifts(noise, StatedWeights((1 - rate, rate)), (0.0, 1.0))


@dataclass(frozen=True, slots=True)
class LaplacePart(StepPart):
    """Numbers of a Laplace step, on a Poisson sample if the sampling rate is below 1.

    Attributes
    ----------
    loss : float
        Largest privacy loss without sampling, nats: distance over scale, within one rounding.
    sample_rate : float
        Probability that the record is sampled, in (0, 1].
    """

    decays: ClassVar[bool] = False
    loss: float
    sample_rate: float

    @property
    @override
    def laplace(self) -> tuple[float, float]:
        return self.loss, self.sample_rate

    @property
    def spread(self) -> float:
        """Approximate standard deviation of the privacy loss (nats) under either hypothesis, at most 1."""
        return min(self.sample_rate * self.loss, 1.0)

    @property
    @override
    def jump(self) -> tuple[float, float]:
        return 1 / self.loss, self.sample_rate


@dataclass(frozen=True, slots=True)
class TwoPointPart(StepPart):
    """Numbers of a step with two losses: it reveals everything with probability delta, otherwise its loss is +-epsilon.

    Attributes
    ----------
    epsilon : float
        Loss in nats.
    delta : float
        Probability with which everything is revealed.
    """

    decays: ClassVar[bool] = False
    has_finite_losses: ClassVar[bool] = True
    epsilon: float
    delta: float

    @property
    def spread(self) -> float:
        """Approximate standard deviation of the privacy loss (nats) under either hypothesis, at most 1."""
        return min(max(self.epsilon, self.delta), 1.0)


@dataclass(frozen=True, slots=True)
class GaussianMixturePart(StepPart):
    """Numbers of a step with N(0, 1) without the record and sum w_i N(s_i/sigma, 1) with the record.

    The step composes by its cumulant generating function.

    Attributes
    ----------
    noise_multiplier : float
        Noise sigma, in the unit of the shifts.
    shifts : tuple of float
        s_i >= 0, ascending and exact.
    weights : tuple of float
        w_i > 0. Weights of positive shifts have a relative error of at most `weight_error`. A shift of 0 has the
        remaining weight.
    mirrored : bool
        Whether the law without the record is the mirror image sum w_i N(-s_i/sigma, 1), as for a replaced record.
    weight_error : float
        Relative error of the weights of positive shifts.
    exact : ExactShifts or None
        Exact noise and weights, if they are known and the doubles are only close to them.
    light : float
        Bound of the total weight of shifts, up to `farthest`, that `shifts` omits. The weight of shift 0 then includes
        theirs.
    farthest : float
        The largest omitted shift.
    """

    noise_multiplier: float
    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    mirrored: bool = False
    weight_error: float = 0.0
    exact: ExactShifts | None = None
    light: float = 0.0
    farthest: float = 0.0

    @property
    def mean_shift(self) -> float:
        """Distance between the means of the release with and without the record, in units of the noise.

        The distance is the mean of the random shift. In a mirrored mixture the release without the record has the
        negated shift, so that the distance is twice the mean. The number approximates the standard deviation of the
        privacy loss if that deviation is small.
        """
        mean = math.fsum(shift * weight for shift, weight in zip(self.shifts, self.weights, strict=True))
        return mean / self.noise_multiplier * (1 + self.mirrored)

    @property
    def spread(self) -> float:
        """Approximate standard deviation of the privacy loss (nats) under either hypothesis, at most 1."""
        return min(self.mean_shift, 1.0)

    @property
    @override
    def noise_between_shifts(self) -> float:
        return self.noise_multiplier / (self.shifts[1] - self.shifts[0])

    @property
    @override
    def mixture_terms(self) -> int:
        return len(self.shifts)

    @property
    @override
    def exact_shifts(self) -> ExactShifts | None:
        return self.exact

    @property
    @override
    def jump(self) -> tuple[float, float]:
        """Ratio of the noise to the mean of the positive shifts, and the probability of these shifts with the record.

        The largest shift replaces the mean where this probability is too small to be computed as 1 minus a weight.
        """
        rate = 1 - self.weights[0] if self.shifts[0] == 0 else 1.0
        return (rate / self.mean_shift, rate) if rate > 0 else (1 / self.shifts[-1], self.mean_shift / self.shifts[-1])


@dataclass(frozen=True, slots=True)
class AtomsPart(StepPart):
    """Numbers of a step whose loss has a list of values.

    Attributes
    ----------
    law : AtomicLaw
        Values and masses.
    """

    decays: ClassVar[bool] = False
    has_finite_losses: ClassVar[bool] = True
    law: AtomicLaw

    @property
    @override
    def listed_law(self) -> AtomicLaw:
        return self.law

    @property
    def spread(self) -> float:
        """Approximate standard deviation of the privacy loss (nats) under H0, at most 1."""
        return min(self.law.spread, 1.0)


Part: TypeAlias = GaussianPart | SampledGaussianPart | LaplacePart | TwoPointPart | GaussianMixturePart | AtomsPart


ATOM_DIGITS = 50
"""Decimal digits of the computation of loss atoms, because ln(1 - p + p e^b) cancels."""


@dataclass(frozen=True, slots=True)
class Attained:
    """Privacy loss that one choice of data sets attains in every step of a composition, as a lower bound.

    For a stated class of mechanisms, the mechanism is chosen, too.

    Attributes
    ----------
    step : AbstractStep
        The step with the pair of laws of this choice, or with one pair for each direction.
    bracket : str
        The sentence that names this theorem and the theorem of the pair of the step, which bounds the composition from
        above.
    alone : AbstractStep or None
        Step that a run of one single step attains instead of `step`; None if the step alone attains its own pair.
    includes_choices : bool
        Whether `alone` is at least as strong as every run of `choices` for a single step.
    either_way : bool
        Whether the choice attains both directions, because the hypotheses may be swapped.
    choices : callable or None
        The function that returns the attained runs of a count of such steps, one run for each known attack. None if
        `step` is the only attack.
    may_come_last : bool
        Whether a single such step beside steps that attain their own pairs attains its pair, too. Its data may then be
        chosen after all other results, for every threshold of its own. Beside exponential steps, which would come last,
        too, it does not.
    """

    step: AbstractStep
    bracket: str
    alone: AbstractStep | None = None
    either_way: bool = True
    choices: Callable[[int], tuple[Steps, ...]] | None = None
    includes_choices: bool = False
    may_come_last: bool = False


class AbstractStep(AbstractMechanism):
    """Elementary step with its own pair of laws, from which its trade-off curves and loss laws follow.

    A pair is the law of the release without and with the record. A described step has the pair for one record added or
    removed; `under` returns the step with the pair for other neighbours. A subclass defines `under` and `curves`, and
    overrides what engines can use, such as `part` or `atomic_law`.
    """

    __slots__ = ()

    @override
    def elementary_steps(self) -> Steps:
        """Return this step with the count 1."""
        return ((self, 1),)

    @abstractmethod
    def under(self, neighbours: Neighbours) -> AbstractStep:
        """Return the step whose pair of laws is the worst case between these neighbouring data sets.

        The pair is at least as easy to distinguish as any neighbouring data sets, in every composition. Some data sets
        are equally easy to distinguish unless `attained` states otherwise.

        Raises
        ------
        UnsupportedCombination
            With field `threat_model` and the missing theorem.
        """

    @abstractmethod
    def curves(self) -> TradeOffPair:
        """Return the exact worst-case trade-off curves of the step alone, in both directions (add and remove)."""

    def part(self) -> Part | None:
        """Return the numbers that engines need to compose the step, or None for a step of another kind.

        The numbers describe the law of the step, such as noise and sampling rate. Known kinds (`Part`) are Gaussian and
        Laplace steps, sampled or not, mixtures of shifted Gaussians, and steps with two or any listed losses.
        """
        return self.two_point()

    def two_point(self) -> TwoPointPart | None:
        """Return the step as a step with two losses, or None for other losses.

        A step with two losses has the privacy loss +epsilon or -epsilon, unless it reveals everything. Like the curves,
        the result holds for the neighbouring relation of the step.
        """
        return None

    def covered(self) -> Part | None:
        """Return the numbers of the step for engines, or None if doubles do not cover the step.

        Numbers cover the step if their stated errors include its exact parameters. None means that two roundings of the
        step, one more private and one less private, have to be evaluated.
        """
        return self.part() if self.rounded(-1) == self.rounded(1) else None

    def loss_atoms(self) -> tuple[tuple[float, float], ...]:
        """Return the privacy losses that have positive probability under H0 (record absent).

        Losses of negligible probability may be left out. The result is empty if there are none, or too many to list.

        Returns
        -------
        tuple of (float, float)
            Loss (nats, add direction) and its probability, both within 16 roundings.
        """
        return ()

    def atomic_law(self) -> AtomicLaw | None:
        """Return the law of the privacy loss if its values can be listed, or None.

        The law leaves out the mass of outcomes that reveal everything.
        """
        return None

    def sampled_under(self, rate: float, neighbours: Neighbours) -> AbstractStep | None:  # noqa: ARG002
        """Return the step on a Poisson sample of the records, between `neighbours`; None if no pair of laws is known.

        `rate` is the probability in (0, 1) with which each record is sampled.
        """
        return None

    def attained(self) -> Attained | None:
        """Return a lower bound of a composition, from one choice of data sets, if the pair of `curves` is not attained.

        A pair is the law of the release without and with the record. None means that one choice attains the pair of
        `curves` in every step of any composition and in both directions. Otherwise the composition of `curves` is an
        upper bound, and the composition of the result a lower bound.
        """
        return None

    def added(self, count: int) -> AbstractStep | None:  # noqa: ARG002 - most steps have no such bounds
        """Return one step whose stated bounds (Renyi divergence or zCDP) hold for `count` such steps together, or None.

        None stands for a step that does not state such bounds, and for sums that exceed the largest stated bound.
        """
        return None

    def plus(self, other: AbstractStep) -> AbstractStep | None:  # noqa: ARG002 - most steps have no such bounds
        """Return one step whose stated bounds (Renyi divergence or zCDP) hold for this and another step, or None.

        None stands for a step that does not state such bounds, and for sums that exceed the largest stated bound.
        """
        return None

    def rounded(self, side: int) -> AbstractStep:  # noqa: ARG002 - most parameters are doubles
        """Return the step with parameters rounded to doubles, no easier to attack (`side` -1) or no harder (1)."""
        return self

    def sides(self) -> tuple[Steps, AbstractStep, str | None] | None:
        """Return steps that bound a step from both sides; None if the step is known exactly.

        The result has steps that some data sets attain (no easier to attack), a step that is no harder to attack, and
        the sentence that names both theorems. The sentence is None if both sides are roundings of one step.
        """
        return None

    @property
    def is_symmetric(self) -> bool:
        """Whether the step has the same worst case in every composition if the hypotheses are swapped."""
        if self.attained() is not None or self.sides() is not None:
            return False
        pair = self.curves()
        return pair.add is pair.remove

    @property
    def has_listed_losses(self) -> bool:
        """Whether `atomic_law` lists the losses."""
        return self.atomic_law() is not None

    @property
    def law_work(self) -> float:
        """Approximate microseconds that the law of losses, or the attacks of the lower bound, cost.

        If the laws of a run cost more than `MOST_LAW_WORK`, its engine is chosen when its curves are needed, not in the
        plan.
        """
        return 0.0

    @property
    def is_tabulated(self) -> bool:
        """Whether `atomic_law` evaluates a table, which costs too much to choose an engine with it."""
        return False

    @property
    def adaptive_range(self) -> float | None:
        """Length in nats of the interval of losses, for a step whose worst pair of laws depends on earlier results.

        The value is None for all other steps.
        """
        return None

    def loss_law(self) -> LossLaw:
        """Return the law of ln dP1/dP0 of the step in the add direction, for engines that approximate or sample.

        The default is the law that follows from `part`.

        Raises
        ------
        UnsupportedCombination
            If no law is known.
        """
        from service.privacy.losses.steps import gaussian_loss, laplace_loss, sampled_gaussian_loss, two_point_loss

        match part := self.part():
            case GaussianPart():
                shift, noise = part.quotient
                return gaussian_loss(float(Fraction(shift) / Fraction(noise)))
            case SampledGaussianPart():
                return sampled_gaussian_loss(part.noise_multiplier, part.sample_rate)
            case LaplacePart():
                return laplace_loss(part.loss, part.sample_rate)
            case TwoPointPart():
                return two_point_loss(part.epsilon, part.delta)
            case _:
                reason = "no distribution of its privacy loss is known."
                raise UnsupportedCombination("method", f"an approximation for {self.type}", reason, ("auto",))


class ResolvedStep(AbstractStep):
    """Step whose worst-case pair of laws is fixed, whatever the neighbouring relation.

    Such steps come from the method `under` of a described step, from an engine, or from a threat model. A subclass
    defines `curves`.
    """

    __slots__ = ()

    @final
    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        """Return the step itself, because its pair of laws holds for these neighbours already."""
        return self


class DescribedStep(AbstractStep):
    """Step as a request describes it, before the neighbouring relation is known.

    A subclass defines the method `under`, which returns the step with its pair of laws. The curves, numbers and laws of
    this step are those between the `default_neighbours`, by default of one added record.
    """

    __slots__ = ()
    default_neighbours: ClassVar[Neighbours] = ONE_ADDED

    @final
    @override
    def curves(self) -> TradeOffPair:
        return self.under(self.default_neighbours).curves()

    @final
    @override
    def part(self) -> Part | None:
        return self.under(self.default_neighbours).part()

    @final
    @override
    def loss_law(self) -> LossLaw:
        return self.under(self.default_neighbours).loss_law()


Steps: TypeAlias = tuple[tuple[AbstractStep, int], ...]


def merged(steps: Iterable[tuple[AbstractStep, int]]) -> Steps:
    """Merge equal steps and add their counts.

    Raises OutOfDomain for more than 1e15 steps in total.
    """
    counts: dict[AbstractStep, int] = {}
    for step, count in steps:
        counts[step] = counts.get(step, 0) + count
    total = sum(counts.values())
    if total not in TOTAL_STEPS:
        raise OutOfDomain("steps", total, str(TOTAL_STEPS), "All steps of the mechanism are counted together.")
    return tuple(counts.items())
