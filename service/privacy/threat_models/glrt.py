"""Adversary who lacks the direction in which a record moves a release: generalised likelihood ratio tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Final, Literal, final

from typing_extensions import override

from service.privacy.composition.planning.accuracy import GLRT_STEPS
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.planning.plan import Plan
from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.domain import DIMENSION, check_fields
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.mixture import Mixture
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.threat_models import cost
from service.privacy.threat_models.glrt_step import (
    SAMPLED_SOURCE,
    GlrtStep,
    GlrtSteps,
    exact_curves,
    limit_curves,
    no_engine,
    noncentrality_of,
)
from service.privacy.threat_models.relaxed import RelaxedThreatModel
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair

UnknownDirection = Literal["common_to_all_steps", "fresh_each_step"]
DIRECTIONS: Final[tuple[UnknownDirection, ...]] = ("common_to_all_steps", "fresh_each_step")
SERVED: Final = ("gaussian", "repeated and composed gaussian", "one step of poisson_sampled gaussian")
NO_BOUND: Final = (
    "fresh_each_step: the composition assumes a new unknown direction in every step. It is no "
    "bound for an adversary whose unknown direction is common to all steps, because averaging "
    "the releases is stronger (/errata#glrt-composition)."
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Glrt(RelaxedThreatModel):
    """Tests by the length of the released vector, for a record that moves it by exactly the sensitivity.

    The adversary does not know the direction in which the record moves the vector.

    Attributes
    ----------
    dimension : int
        Count d of coordinates of the vector.
    unknown_direction : {"common_to_all_steps", "fresh_each_step"}
        Whether all steps have one direction.

    Notes
    -----
    SF is 1 minus the distribution function. Releases are y_i ~ N(nu, sigma_i^2 I) with |nu| = 1 and one nu for all
    steps. The likelihood depends on them only through the weighted mean with weights 1/sigma_i^2. The noise of the
    weighted mean has the variance 1/lambda with lambda = sum 1/sigma_i^2. The maximum of the likelihood over nu depends
    on the mean only through its length. So T = lambda |mean|^2 ~ chi2_d against chi2'_d(lambda). The power is R(x) =
    SF[chi2'_d(lambda)](SF^-1[chi2_d](x)) in the direction add, and its inverse R' in the direction remove. Theorem 2
    (Kaissis et al. 2024) states this for steps with equal noise.

    A Poisson-sampled step is tested by its own T, and the answers enclose the power of this test. The laws of T are
    known exactly for every record that meets the premises, so that both bounds rest on one pair. With fresh_each_step
    the values of T are independent, and their joint law is the composition itself.
    """

    type: ClassVar[str] = "glrt"
    dimension: Annotated[int, DIMENSION]
    unknown_direction: UnknownDirection = "common_to_all_steps"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.unknown_direction not in DIRECTIONS:
            raise OutOfDomain("unknown_direction", self.unknown_direction, f"one of {', '.join(DIRECTIONS)}")

    @override
    def own_plan(self, mechanism: AbstractMechanism, method: str, options: EngineOptions, worst: Plan | None) -> Plan:
        steps = self._steps(mechanism)
        if self._composes(steps, method):
            return _composed(steps, method, options)
        sampled = any(step.sample_rate < 1 for step, _ in steps)
        if sampled and _count(steps) > 1:
            raise _refusal(
                mechanism,
                "sampled steps share one unknown direction, and composing their profiles gives no bound for "
                "an adversary who uses that fact. No theorem covers this case (unknown_direction "
                "fresh_each_step composes the steps).",
            )
        known = ("auto", "closed_form") if sampled else ("auto", "closed_form", "clt")
        if method not in known:
            raise no_engine(f"{method} for glrt", known)
        model = cost.glrt(steps, method)
        if sampled:
            return Plan("closed_form", model, steps[0][0].curves)
        if method == "clt":
            return Plan("clt", model, partial(_exact, limit_curves, self.dimension, steps))
        return Plan("closed_form", model, partial(_exact, exact_curves, self.dimension, steps))

    @override
    def worst_case(self, mechanism: AbstractMechanism) -> WorstCase:
        return WorstCase("add_or_remove_one")

    @override
    def premises(self, mechanism: AbstractMechanism) -> tuple[Premise, ...]:
        steps = self._steps(mechanism)
        found = [
            Premise(
                "direction_unknown",
                "The adversary does not know the direction in which the record moves the released vector. "
                "The test uses the length of the release.",
                "unknown",
            ),
            Premise(
                "noise_equal_on_all_coordinates",
                f"Every release is a vector of {self.dimension} coordinates with independent noise of equal "
                "size. The record moves the vector by exactly the sensitivity.",
                "unknown",
            ),
        ]
        if _count(steps) > 1:
            found.append(self._premise_of_steps(steps))
        return tuple(found)

    def _premise_of_steps(self, steps: GlrtSteps) -> Premise:
        if self.unknown_direction == "common_to_all_steps":
            return Premise(
                "direction_is_common_to_all_steps",
                "The record moves the release by the same vector in every step.",
                "unknown",
            )
        repeated = any(count > 1 and step.sample_rate == 1 for step, count in steps)
        text = (
            "Every step has a new, unrelated direction, also for the adversary. If the direction is "
            "common to all steps, these answers are no bound, because such an adversary averages the "
            "releases."
        )
        return Premise("direction_differs_in_every_step", text, "no" if repeated else "unknown")

    def _composes(self, steps: GlrtSteps, method: str) -> bool:
        """Return whether an engine composes the steps one by one under `method`, instead of a closed form."""
        return self.unknown_direction == "fresh_each_step" and (_count(steps) > 1 or method == "discretised")

    def _steps(self, mechanism: AbstractMechanism) -> GlrtSteps:
        """Return the Gaussian steps of a mechanism with their counts.

        Raise UnsupportedCombination unless all steps are Gaussian, sampled or not.
        """
        if isinstance(mechanism, Mixture):
            raise _refusal(mechanism, "the mechanism draws which steps are run.")
        found: list[tuple[GlrtStep, int]] = []
        for step, count in mechanism.elementary_steps():
            base, rate = (step.mechanism, step.sample_rate) if isinstance(step, PoissonSampled) else (step, 1.0)
            if not isinstance(base, Gaussian):
                raise _refusal(mechanism, "the test is known only for Gaussian noise on a vector of known dimension.")
            test = GlrtStep(dimension=self.dimension, noise_multiplier=base.noise_multiplier, sample_rate=rate)
            found.append((test, count))
        return tuple(found)


def _composed(steps: GlrtSteps, method: str, options: EngineOptions) -> Plan:
    """Return the plan (engine, curves and cost) of the lattice engine for steps of generalised likelihood ratio tests.

    A direction is that in which the record moves the released vector. Every step has a new, unrelated direction, so
    that the test statistics of the steps are independent. Raises UnsupportedCombination for any `method` but auto and
    discretised.
    """
    if method not in ("auto", "discretised"):
        raise no_engine(f"{method} for several steps with fresh_each_step", ("auto", "discretised"))
    options = options.no_finer_than(GLRT_STEPS)
    return Plan("discretised", cost.glrt(steps, "discretised"), partial(_on_lattices, steps, options))


def _on_lattices(steps: GlrtSteps, options: EngineOptions) -> TradeOffPair:
    from service.privacy.composition.lattice.engine import discretised_pair

    found = discretised_pair(tuple(steps), options)
    return replace(found, source=f"{SAMPLED_SOURCE}; {found.source}", notes=(NO_BOUND, *found.notes))


def _exact(curves: Callable[[int, Enclosure], TradeOffPair], dimension: int, steps: GlrtSteps) -> TradeOffPair:
    return curves(dimension, noncentrality_of(steps))


def _count(steps: GlrtSteps) -> int:
    return sum(count for _, count in steps)


def _refusal(mechanism: AbstractMechanism, reason: str) -> UnsupportedCombination:
    return UnsupportedCombination("mechanism", f"glrt for {mechanism.type}", reason, SERVED)
