"""Estimated cost of a request from its questions or points, by the cost models of its engines.

Costs are in units of about 1 us of CPU time. A *plan* is the chosen engine with its grid. A *ceiling* is the work at
which an evaluation ends. A *reading* is one evaluation of a curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from api_schemas.choices import Direction
from api_schemas.mechanisms import MechanismSpec, NoisySgdMechanism, is_one_step, nodes_of
from api_schemas.options import ONLY_WHERE_ASKED
from api_schemas.questions import (
    AdvantageOverPriorQuestion,
    AdvantageQuestion,
    AttackAccuracyQuestion,
    DeletionCapacityQuestion,
    DeltaQuestion,
    EpsilonQuestion,
    GdpMuQuestion,
    NegativePredictiveValueQuestion,
    PositivePredictiveValueQuestion,
    QuestionSpec,
    ReconstructionQuestion,
    TradeOffQuestion,
    UnlearningGuaranteeQuestion,
)
from api_schemas.threat_models import MembershipThreatModel, MixtureThreatModel, ThreatModelSpec, WorstCaseThreatModel
from api_schemas.training_runs import phases_of
from service.privacy.composition.planning.cost_model import Ceiling, CostModel, ReadingCosts
from service.privacy.composition.planning.plan import Plan
from service.privacy.questions.complement import LARGE_RATE
from service.resources.abstract import Planned, Quote
from service.resources.allowance import MOST_WORK, SURELY_TOO_LONG, WORK_OF_A_JOB

ANSWER: Final = 90
"""Cost of looking up a computed answer and writing it."""
INLINE_LIMIT: Final = 10_000
"""Largest sum of ceilings of closed forms that the event loop computes, in microseconds. The sum is half of the time
for which the loop may be blocked, since first evaluations in a busy process take longer."""
EXTREME_MU, EXTREME_RATE = 4, 1e-25
"""Factor of the cost of mu over a range that extends below this rate. Rates of 0 are not searched."""
TINY: Final = 1e-20
"""Largest tiny probability. Lattices that are accurate for ordinary numbers say little about it."""
UNCERTAINTY: Final = 32.0
"""Largest factor by which estimates may be too high."""
UNCERTAINTY_OF_GROUND_TRUTHS: Final = 4.0
"""Largest factor for ground truths: all questions share a contour, which makes up most of their cost."""


def quote(
    plans: Sequence[Plan],
    cost_of: Callable[[CostModel | Ceiling], float],
    beside: float = 0.0,
    prepared: Planned | None = None,
) -> Quote:
    """Return the joint estimated cost, in microseconds of CPU time, of evaluations with the engines of `plans`.

    The event loop computes the request only if all plans have a ceiling (largest cost) and their sum is at most 10 ms.
    The cost is at most the allowance, at which evaluations end. A ground truth (many proved digits) has no such end. If
    its estimate certainly exceeds the limit, the request needs a job.

    `cost_of` returns the cost of the evaluations by a cost model. `beside` is the cost of other work for the request,
    in microseconds. `prepared` answers the request from these plans.
    """
    ceiling = sum(math.inf if plan.ceiling is None else cost_of(plan.ceiling) for plan in plans) + beside
    if ceiling <= INLINE_LIMIT:
        most = math.ceil(ceiling)
        return Quote(most, inline=True, engine=plans[0].engine, ceiling=most, prepared=prepared)
    estimates = [cost_of(plan.cost) for plan in plans]
    expected, engine = math.fsum(estimates), plans[estimates.index(max(estimates))].engine
    uncertainty_factor = UNCERTAINTY_OF_GROUND_TRUTHS if engine == ONLY_WHERE_ASKED else UNCERTAINTY
    for_a_job = engine == ONLY_WHERE_ASKED and expected > uncertainty_factor * SURELY_TOO_LONG
    most = math.ceil((WORK_OF_A_JOB if for_a_job else MOST_WORK) + beside)
    cost = math.ceil(expected + beside)
    cost = cost if for_a_job else min(cost, most)
    return Quote(cost, engine=engine, uncertainty_factor=uncertainty_factor, ceiling=most, prepared=prepared)


def is_for_a_job(quoted: Quote) -> bool:
    """Return whether a request with the estimate `quoted` is so expensive that only a job computes it."""
    return quoted.minimum > SURELY_TOO_LONG


MOST_LOOKED_AT: Final = 600
"""Largest number of parts of a description that the event loop resolves: mechanisms, phases of schedules, adversaries
and subpopulations. Longer descriptions would block the loop, and only a worker resolves them."""
EXACT_PARTS: Final = 5
UNPRICED: Final = "unpriced"
"""Name in place of an engine for longer descriptions."""
UNPRICED_BASE, UNPRICED_PART, UNPRICED_MOST = 300_000, 500, 15_000_000
"""Cost of such a description: each part costs some contours for each of a few evaluations."""


def unpriced(mechanism: MechanismSpec, threat_models: Sequence[ThreatModelSpec], readings: int) -> Quote | None:
    """Return the estimated cost of a description with more than 600 parts, from their number alone.

    The description is a mechanism with its attackers. Return None for fewer parts (`parts_of`), which are estimated one
    by one. More parts would block the event loop. `readings` is the number of evaluations of trade-off curves.
    """
    if is_one_step(mechanism) and all(type(each) is WorstCaseThreatModel for each in threat_models):
        return None  # the number of threat models is below the limit
    return _unpriced(parts_of(mechanism, threat_models), readings)


def unpriced_together(described: Sequence[tuple[MechanismSpec, ThreatModelSpec]], readings: int) -> Quote | None:
    """Return the estimated cost of several descriptions with more than 600 parts in total, from their number alone.

    Return None for fewer parts (`parts_of`), which are estimated one by one. Each description is evaluated `readings`
    times.
    """
    return _unpriced(sum(parts_of(mechanism, (model,)) for mechanism, model in described), readings)


def _unpriced(parts: int, readings: int) -> Quote | None:
    if parts <= MOST_LOOKED_AT:
        return None
    cost = min(UNPRICED_BASE + UNPRICED_PART * parts * readings, UNPRICED_MOST)
    return Quote(cost, engine=UNPRICED, uncertainty_factor=UNCERTAINTY, ceiling=UNPRICED_MOST)


def parts_of(mechanism: MechanismSpec, threat_models: Sequence[ThreatModelSpec]) -> int:
    """Return the number of parts (mechanisms, phases of schedules, attackers) of a description.

    A repeated step counts once, whatever its number of repetitions. Noisy SGD counts as six parts, because its
    parameters are fractions.
    """
    nodes = nodes_of(mechanism)
    exact = sum(isinstance(node, NoisySgdMechanism) for node in nodes)  # parameters are fractions
    return len(nodes) + phases_of(nodes) + EXACT_PARTS * exact + sum(map(_parts_of, threat_models))


def _parts_of(threat_model: ThreatModelSpec) -> int:
    match threat_model:
        case MixtureThreatModel():
            return sum(_parts_of(part.threat_model) for part in threat_model.components)
        case MembershipThreatModel(population=tuple() as population):
            return len(population)
        case _:
            return 1


def questions_cost(questions: Sequence[QuestionSpec], model: CostModel | Ceiling) -> float:
    """Return the estimated cost of the answers to these questions, in microseconds of CPU time.

    `model` is the cost model of the curves. Equal questions count once.
    """
    if len(questions) == 1:  # shortcut for one question
        (question,) = questions
        costs = model.readings(both=question.direction == "both")
        if _needs_only_extreme_ratios(question):
            return costs.limit + (_build(model, (question.direction,)) if model.limits_need_curve else 0.0)
        return _build(model, (question.direction,)) + _question_cost(question, costs)
    limits, read = dict[Direction, float](), set[Direction]()
    readings: list[float] = []
    for question in dict.fromkeys(questions):
        costs = model.readings(both=question.direction == "both")
        if _needs_only_extreme_ratios(question):
            limits[question.direction] = costs.limit
            read |= {question.direction} if model.limits_need_curve else set()
        else:
            readings.append(_question_cost(question, costs))
            read.add(question.direction)
    most = max(readings, default=0.0)
    return sum(limits.values()) + _build(model, read) + most + model.reuse * (math.fsum(readings) - most)


def curves_cost(directions: Sequence[Direction], points: int, model: CostModel | Ceiling) -> float:
    """Return the estimated cost of a trade-off curve for each of `directions`, in microseconds of CPU time.

    Each curve has `points` points, and `model` is the cost model of the curves.
    """
    costs = (model.readings(both=direction == "both") for direction in directions)
    return _build(model, directions) + sum(each.points(points) for each in costs)


def _build(model: CostModel | Ceiling, directions: Iterable[Direction]) -> float:
    if model.one_curve:
        return model.build
    known = set(directions)
    return model.build * (2 if "both" in known else len(known))


MAY_READ_LIMITS: Final = frozenset(
    {
        PositivePredictiveValueQuestion,
        NegativePredictiveValueQuestion,
        AdvantageOverPriorQuestion,
        DeletionCapacityQuestion,
        UnlearningGuaranteeQuestion,
    }
)


def _needs_only_extreme_ratios(question: QuestionSpec) -> bool:
    # Answers about an extreme predictive value need the extreme likelihood ratios alone, and so do predictive values
    # without a rate, at the priors 0 and 1, and at the rate at which the test never gives the answer in question.
    if type(question) not in MAY_READ_LIMITS:
        return False
    match question:
        case PositivePredictiveValueQuestion() | NegativePredictiveValueQuestion():
            nobody = 0 if isinstance(question, PositivePredictiveValueQuestion) else 1
            return question.false_positive_rate in (None, nobody) or question.prior in (0, 1)
        case AdvantageOverPriorQuestion() | DeletionCapacityQuestion() | UnlearningGuaranteeQuestion():
            return True
        case _:
            return False


def _is_tiny(question: QuestionSpec) -> bool:
    # whether an answer is about a tiny probability other than a type II error
    match question:
        case TradeOffQuestion():
            return any(0 < rate < TINY for rate in question.false_positive_rates)
        case EpsilonQuestion():
            return 0 < question.delta < TINY
        case ReconstructionQuestion():
            return 0 < (question.baseline_success or 0.0) < TINY
        case AttackAccuracyQuestion(false_positive_rate=None):
            return 0 < question.prior < TINY
        case AttackAccuracyQuestion() | PositivePredictiveValueQuestion() | NegativePredictiveValueQuestion():
            return 0 < (question.false_positive_rate or 0.0) < TINY
        case _:
            return False


def _question_cost(question: QuestionSpec, costs: ReadingCosts) -> float:
    if isinstance(question, TradeOffQuestion):
        return costs.points(len(question.false_positive_rates), tiny=_is_tiny(question))
    return _number_cost(question, costs) * (costs.tiny if costs.tiny > 1 and _is_tiny(question) else 1.0)


def _number_cost(question: QuestionSpec, costs: ReadingCosts) -> float:
    # without a default case, so that a type checker reports a missing type of question
    match question:
        case TradeOffQuestion():
            return costs.points(len(question.false_positive_rates))
        case GdpMuQuestion():
            least = min(
                rate for rate in (question.false_positive_rate_min, question.type_two_error_min, 1.0) if rate > 0
            )
            return costs.gdp_mu * (EXTREME_MU if least < EXTREME_RATE else 1)
        case EpsilonQuestion():
            return costs.epsilon
        case DeltaQuestion() | AdvantageQuestion():
            return costs.profile
        case ReconstructionQuestion():
            return costs.point if question.candidates is None else 2 * costs.point
        case AttackAccuracyQuestion():
            return costs.profile if question.false_positive_rate is None else costs.point
        case PositivePredictiveValueQuestion(side="at_least", false_positive_rate=float() as rate):
            return costs.complement if rate < LARGE_RATE and 1 - (1 - rate) != rate else 2 * costs.point
        case PositivePredictiveValueQuestion() | NegativePredictiveValueQuestion():
            return costs.point
        case AdvantageOverPriorQuestion() | DeletionCapacityQuestion() | UnlearningGuaranteeQuestion():
            return costs.limit
