"""What a mechanism is: a frozen value that says what a release did, and nothing about who attacks it.

AbstractMechanism   lists the elementary steps it consists of, with their counts
- AbstractStep      an elementary step: knows its own exact curves, and what it adds to a composition
  - ResolvedStep    one whose curves hold under the relation asked for; the others are so `under` it
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
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


class AbstractMechanism(ABC):
    """A frozen, final value. `type` is its name on the wire; its fields have the names of the wire."""

    __slots__ = ()
    type: ClassVar[str]
    type_premises: ClassVar[tuple[Premise, ...]] = ()
    """Premises of every mechanism of the type."""
    type_hazards: ClassVar[tuple[MechanismHazard, ...]] = ()
    """Hazards of every mechanism of the type."""

    def __post_init__(self) -> None:
        """Check the values of the fields. Raises OutOfDomain."""
        check_fields(self)

    @abstractmethod
    def elementary_steps(self) -> Steps:
        """The elementary steps in order of first appearance, equal ones merged, each with its count."""

    @property
    def inner(self) -> tuple[AbstractMechanism, ...]:
        """The mechanisms that it is made of: their premises and hazards are also its own."""
        return ()

    @property
    def premises(self) -> tuple[Premise, ...]:
        """What answers about it rest on, beside what those about its `inner` mechanisms do."""
        return self.type_premises

    @property
    def hazards(self) -> tuple[MechanismHazard, ...]:
        """Known traps of runs like it, beside those of its `inner` mechanisms."""
        return self.type_hazards

    @final
    def caveats(self) -> Caveats:
        """Premises and hazards of all its parts and its own."""
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


@lru_cache(maxsize=64)  # mechanisms of a kind say the same, whatever their parameters
def _caveats(
    premises: tuple[Premise, ...], hazards: tuple[MechanismHazard, ...], ends: tuple[tuple[MechanismHazard, ...], ...]
) -> Caveats:
    """Each once, in their order; what is said `alone` where all `ends` say it."""
    said = (hazard for hazard in hazards if not hazard.alone or all(hazard in caused for caused in ends))
    return Caveats(in_order(premises), in_order(said))


def _nodes_of(mechanism: AbstractMechanism) -> list[tuple[AbstractMechanism, bool]]:
    """All mechanisms of the tree, parts before the whole, and whether each has parts."""
    inner = mechanism.inner
    different = dict.fromkeys(inner) if len(inner) > 1 else inner
    return [*(node for part in different for node in _nodes_of(part)), (mechanism, bool(inner))]


class StepPart:
    """What a step adds to a composition."""

    __slots__ = ()
    decays: ClassVar[bool] = True
    """Whether the transform of the loss falls off along any contour, as the loss has a density."""

    @property
    def jump(self) -> tuple[float, float] | None:
        """Noise over the largest shift, and the probability that the record is sampled; None where the loss has no
        large increments apart from its bulk.
        """
        return None

    @property
    def gaussian_shift(self) -> Enclosure | None:
        """mu of a step that composes as a Gaussian shift; None for others."""
        return None

    @property
    def exact_shifts(self) -> ExactShifts | None:
        """The step as a mixture of shifted Gaussians without any rounding; None where it is not known as one."""
        return None


@dataclass(frozen=True, slots=True)
class GaussianPart(StepPart):
    """A step that composes as a Gaussian shift: squares of `shift` (mu) add up.

    The shift is exactly the first of `quotient` over the second.
    """

    shift: Enclosure
    quotient: tuple[float | Fraction, float | Fraction]

    @property
    def spread(self) -> float:
        """About the standard deviation of the loss."""
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
    """A Poisson-sampled Gaussian step: composes by its cumulant generating function.

    `exact`: both numbers, where the doubles are only the nearest ones.
    """

    noise_multiplier: float
    sample_rate: float
    exact: tuple[Fraction, Fraction] | None = None

    @property
    def spread(self) -> float:
        """About the standard deviation of the loss."""
        return min(self.sample_rate / self.noise_multiplier, 1.0)

    @property
    def rate_rest(self) -> float:
        """What the exact rate has beside its double."""
        return 0.0 if self.exact is None else float(self.exact[1] - Fraction(self.sample_rate))

    @property
    def noise_between_shifts(self) -> float:
        """Noise over the distance of the two shifts, 0 and 1."""
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
    """A Laplace step, on a Poisson sample where `sample_rate` < 1: composes by its cumulant generating function.

    `loss`: its largest loss without sampling, distance over scale in nats, within u.
    """

    decays: ClassVar[bool] = False
    loss: float
    sample_rate: float

    @property
    def spread(self) -> float:
        """About the standard deviation of the loss."""
        return min(self.sample_rate * self.loss, 1.0)

    @property
    @override
    def jump(self) -> tuple[float, float]:
        return 1 / self.loss, self.sample_rate


@dataclass(frozen=True, slots=True)
class TwoPointPart(StepPart):
    """A step that tells everything with probability `delta`, and else has one of the losses +-`epsilon` (nats)."""

    decays: ClassVar[bool] = False
    epsilon: float
    delta: float

    @property
    def spread(self) -> float:
        """About the standard deviation of the loss."""
        return min(max(self.epsilon, self.delta), 1.0)


@dataclass(frozen=True, slots=True)
class GaussianMixturePart(StepPart):
    """A step that is N(0, 1) without the record and sum w_i N(s_i/sigma, 1) with it: composes by its cumulant
    generating function.

    `shifts` s_i >= 0 ascend and are exact; the `weights` w_i > 0 of positive shifts are within `weight_error` of
    themselves, and that of shift 0, where it is there, is what they leave of 1. `mirrored`: the step without
    the record is the mirror image of that with it, sum w_i N(-s_i/sigma, 1), as when one record replaces another.
    `light`: a bound of what further shifts, up to `farthest`, weigh together, which are left out of these: shift 0 is
    there then, and has their weight. `exact`: noise and weights as they are, where the doubles are only near them; None
    where they are not known so.
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
        """The mean of the shift in units of the noise, of both hypotheses where it is mirrored: about the deviation of
        a weak loss.
        """
        mean = math.fsum(shift * weight for shift, weight in zip(self.shifts, self.weights, strict=True))
        return mean / self.noise_multiplier * (1 + self.mirrored)

    @property
    def spread(self) -> float:
        """About the standard deviation of the loss."""
        return min(self.mean_shift, 1.0)

    @property
    def noise_between_shifts(self) -> float:
        """Noise over the distance of the two smallest shifts."""
        return self.noise_multiplier / (self.shifts[1] - self.shifts[0])

    @property
    @override
    def exact_shifts(self) -> ExactShifts | None:
        return self.exact

    @property
    @override
    def jump(self) -> tuple[float, float]:
        """Noise over the mean of the positive shifts, and their probability, with the record; the largest shift where
        their probability is too small for 1 less it.
        """
        rate = 1 - self.weights[0] if self.shifts[0] == 0 else 1.0
        return (rate / self.mean_shift, rate) if rate > 0 else (1 / self.shifts[-1], self.mean_shift / self.shifts[-1])


Part: TypeAlias = GaussianPart | SampledGaussianPart | LaplacePart | TwoPointPart | GaussianMixturePart


ATOM_DIGITS = 50
"""Decimal digits in which atoms of losses are computed: ln(1 - p + p e^b) cancels."""


@dataclass(frozen=True, slots=True)
class Attained:
    """What one choice of data sets (and of a mechanism of a stated class) attains in every step of a composition.

    `step`: the step with the pair of that choice, or with one for each direction. `bracket`: the sentence that names
    this theorem and the one of the step's own pair, which bounds the composition from above. `alone`: where the step's
    own pair is not even attained when nothing else is run, what is attained then. `either_way`: whether the choice may
    be read in either direction, as the hypotheses may be exchanged.
    """

    step: AbstractStep
    bracket: str
    alone: AbstractStep | None = None
    either_way: bool = True


class AbstractStep(AbstractMechanism):
    """An elementary step: its curves, parts and laws are those of its own pair. The pair of a step as it was described
    is that of one record added or removed; `under` gives the step with the pair of other neighbours.
    """

    __slots__ = ()

    @override
    def elementary_steps(self) -> Steps:
        """Itself, once."""
        return ((self, 1),)

    @abstractmethod
    def under(self, neighbours: Neighbours) -> AbstractStep:
        """The step whose own pair is the worst case of this one between such neighbours: it dominates, in every
        composition, and is attained where `attained` does not say otherwise.

        Raises UnsupportedCombination with field `threat_model`, which names the missing theorem.
        """

    @abstractmethod
    def curves(self) -> TradeOffPair:
        """Exact worst-case curves of the step alone."""

    def part(self) -> Part | None:
        """What the step adds to a composition of Gaussian and Laplace steps, sampled or not, and of steps of two
        losses; None if it is none of these.
        """
        return self.two_point()

    def two_point(self) -> TwoPointPart | None:
        """Return the step as one of two losses, which holds for the relation in force like its curves; None where it
        has other losses.
        """
        return None

    def covered(self) -> Part | None:
        """A part whose doubles, with the errors that it states, cover the step as it is; None where it is known
        between two roundings only.
        """
        return self.part() if self.rounded(-1) == self.rounded(1) else None

    def loss_atoms(self) -> tuple[tuple[float, float], ...]:
        """(loss, H0-mass) of the losses (nats, add direction) that have a probability of their own, within 16 u."""
        return ()

    def attained(self) -> Attained | None:
        """None where one choice attains the pair of `curves` in every step of any composition and in both directions;
        else what is attained so: the composition of `curves` is then an upper end, and this a lower one.
        """
        return None

    def rounded(self, side: int) -> AbstractStep:  # noqa: ARG002 - most parameters are doubles
        """The step with parameters that are doubles: no easier to attack (side -1), or no harder (side 1)."""
        return self

    def sides(self) -> tuple[Steps, AbstractStep, str | None] | None:
        """Return, of a step that is known from two sides, steps that are attained, a step that dominates, and the
        sentence that names both theorems; None for others.
        """
        return None

    @property
    def is_symmetric(self) -> bool:
        """Whether the step has the same worst case, in every composition, with the hypotheses swapped."""
        if self.attained() is not None or self.sides() is not None:
            return False
        pair = self.curves()
        return pair.add is pair.remove

    @property
    def adaptive_range(self) -> float | None:
        """The range of the loss of a step whose worst pair depends on all earlier results; None for others."""
        return None

    def loss_law(self) -> LossLaw:
        """Return the law of ln dP1/dP0 of the step in the add direction, for engines that approximate or sample, by
        default that of its part. Raises UnsupportedCombination where none is known.
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
                reason = "no law of its loss is known."
                raise UnsupportedCombination("method", f"an approximation for {self.type}", reason, ("auto",))


class ResolvedStep(AbstractStep):
    """A step that knows its own pair already: what `under` gives, or an engine or a threat model makes."""

    __slots__ = ()

    @final
    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        """Itself."""
        return self


class DescribedStep(AbstractStep):
    """A step that has the pair of another one, which `under` gives: as it was described, that of one record added."""

    __slots__ = ()

    @final
    @override
    def curves(self) -> TradeOffPair:
        return self.under(ONE_ADDED).curves()

    @final
    @override
    def part(self) -> Part | None:
        return self.under(ONE_ADDED).part()

    @final
    @override
    def loss_law(self) -> LossLaw:
        return self.under(ONE_ADDED).loss_law()


Steps: TypeAlias = tuple[tuple[AbstractStep, int], ...]


def merged(steps: Iterable[tuple[AbstractStep, int]]) -> Steps:
    """Equal steps joined, counts added; raises OutOfDomain when there are more than 1e15 steps in all."""
    counts: dict[AbstractStep, int] = {}
    for step, count in steps:
        counts[step] = counts.get(step, 0) + count
    total = sum(counts.values())
    if total not in TOTAL_STEPS:
        raise OutOfDomain("steps", total, str(TOTAL_STEPS), "All steps of the mechanism are counted together.")
    return tuple(counts.items())
