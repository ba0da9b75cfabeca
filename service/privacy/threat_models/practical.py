"""Attacker of practical membership privacy (PMP): one who has a list of candidates, half of which are in the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Final, final

from typing_extensions import override

from service.privacy.composition.planning import choose
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.planning.plan import Plan
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.approximate_dp import ApproximateDp
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.domain import DELTA, EPSILON, check_fields
from service.privacy.mechanisms.mixture import Mixture
from service.privacy.threat_models import cost
from service.privacy.threat_models.relaxed import RelaxedThreatModel
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import CLOSED_FORM
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.pointwise_max_pair import pointwise_max_of

PRIOR: Final = 0.5
"""Prior of every candidate, because half of the candidates are in the data."""
METHODS: Final = ("auto", "closed_form")
SOURCE: Final = (
    "Lowy et al. 2023 (PMP), Definition 2 and Lemmas 3 and 6, delta unchanged; Kairouz, Oh, Viswanath 2015, Theorem 2.1"
)
STATED: Final = "closed_form: the curve of the stated PMP parameter, which does not depend on the mechanism."
NOT_COMPOSABLE: Final = (
    "PMP does not compose: do not add the parameters of several releases. A parameter for one "
    "set of candidates does not hold for another set."
)
ONE_HALF: Final = "The prior is 1/2 by construction: half of the candidates are in the data."
BOTH_HOLD: Final = (
    "The worst case of replacing a record in the same release is also a bound. The answer uses "
    "the smaller power at every false positive rate."
)
BRACKET: Final = (
    "bracket: two upper bounds hold, and the answer is the smaller one (the stated parameter, "
    "Lowy et al. 2023, Definition 2; the worst case, by joint convexity over the halves). Where "
    "the worst case is smaller, no release is known that attains it."
)
NOT_REPLACED: Final = (
    "The worst case in this response has another neighbouring relation than replacing a record. "
    "It is no bound for this attacker, whose data sets all have one size. No curves are known "
    "for replacing a record of this mechanism."
)
ALONE: Final = (
    "bracket: the stated parameter bounds the attacker (Lowy et al. 2023, Definition 2). No "
    "release of this mechanism is known that attains this curve. The second bound, from "
    "replacing a record, is not known for this mechanism."
)
REPLACED: Final = WorstCase("replace_one")
PREMISES: Final = (
    Premise(
        "epsilon_pmp_is_of_the_release",
        "epsilon_pmp and delta were computed for the whole release as it was run, on this set of 2n "
        "different candidate records.",
        "unknown",
    ),
    Premise(
        "candidates_half_drawn",
        "The data are n of the 2n candidates, drawn uniformly. The attacker knows the candidates, "
        "but nothing about the draw.",
        "unknown",
    ),
    Premise(
        "guess_sees_a_release",
        "baseline_success of a reconstruction is the probability of success with a release of data "
        "without the record. Such a release may reveal other candidates.",
        "unknown",
    ),
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Practical(RelaxedThreatModel):
    """Attacker of practical membership privacy, against a release that is stated to be (epsilon_pmp, delta)-PMP.

    Two laws of the output are (epsilon_pmp, delta)-indistinguishable in both directions: with a candidate in the data,
    and with the candidate out, each averaged over all halves of the candidates.

    Notes
    -----
    f(alpha) = max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)). So the largest accuracy is (e^eps +
    delta)/(1 + e^eps), and eta of eta-membership inference privacy is half the advantage: tanh(eps/2)/2 for delta = 0.
    Randomised response with parameters (eps, delta) on which of two candidates is in the data attains the curve of the
    parameter.

    The parameter belongs to one mechanism on one set of candidates. It is stated, not derived from the mechanism. The
    worst case of the mechanism is that of replacing a record, because all data have one size. By joint convexity this
    worst case bounds the attacker as well. The type II error is the larger of both curves.
    """

    type: ClassVar[str] = "practical"
    epsilon_pmp: Annotated[float, EPSILON]
    delta: Annotated[float, DELTA] = 0.0

    def __post_init__(self) -> None:
        check_fields(self)

    @override
    def own_plan(self, mechanism: AbstractMechanism, method: str, options: EngineOptions, worst: Plan | None) -> Plan:
        if method not in METHODS:
            reason = "a stated parameter has a curve in closed form, and no steps to compose."
            raise UnsupportedCombination("method", f"{method} for practical", reason, METHODS)
        own = choose.plan(self._stated, CLOSED_FORM)
        if not self.is_bounded(mechanism):
            return replace(own, build=partial(_alone, own))
        worst = worst or REPLACED.plan(mechanism, "auto", options)
        return Plan(own.engine, cost.larger_of(own.cost, worst.cost), partial(_larger, own, worst))

    @override
    def worst_case(self, mechanism: AbstractMechanism) -> WorstCase:
        if _serves(REPLACED, mechanism):
            return REPLACED
        added = WorstCase("add_or_remove_one")
        return added if _serves(added, mechanism) else WorstCase("zero_out")

    @override
    def is_bounded(self, mechanism: AbstractMechanism) -> bool:
        """Return whether the worst case of a replaced record is known, which bounds this attacker."""
        return _serves(REPLACED, mechanism)

    @override
    def premises(self, mechanism: AbstractMechanism) -> tuple[Premise, ...]:
        return PREMISES

    @override
    def check_question(self, question: str, prior: float | None) -> None:
        if question == "deletion_capacity":
            reason = (
                "candidates are not in the data independently of each other, and the bound holds for one "
                "candidate alone."
            )
            raise UnsupportedCombination("question", "deletion_capacity for practical", reason, ("worst_case",))
        if prior not in (None, PRIOR):
            reason = "PMP averages over data sets with half of the candidates."
            raise UnsupportedCombination("prior", "a prior other than 1/2 for practical", reason, ("prior 0.5",))

    @property
    def _stated(self) -> ApproximateDp:
        return ApproximateDp(epsilon=self.epsilon_pmp, delta=self.delta)


def _alone(own: Plan) -> TradeOffPair:
    return replace(_stated(own, NOT_REPLACED), bracket=ALONE)


def _larger(own: Plan, worst: Plan) -> TradeOffPair:
    return pointwise_max_of(_stated(own), worst.curves, BOTH_HOLD, BRACKET)


def _stated(own: Plan, *notes: str) -> TradeOffPair:
    """Return the trade-off curves of `own`, the plan for the stated parameter of practical membership privacy.

    `notes` are notes for the answers.
    """
    return replace(own.curves, source=SOURCE, notes=(STATED, NOT_COMPOSABLE, ONE_HALF, *notes))


def _serves(model: WorstCase, mechanism: AbstractMechanism) -> bool:
    """Return whether the worst case `model` has known trade-off curves for `mechanism`."""
    parts = [part for _, part in mechanism.drawn()] if isinstance(mechanism, Mixture) else [mechanism]
    try:
        for part in parts:
            for step, _ in part.elementary_steps():
                step.under(model.neighbours)
    except UnsupportedCombination:
        return False
    return True
