"""Expected cost of a request: of its questions or its points, by the cost models of its plans."""

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
from service.computations.abstract import Planned, Quote
from service.computations.allowance import MOST_WORK, SURELY_TOO_LONG, WORK_OF_A_JOB
from service.privacy.composition.planning.cost_model import Ceiling, CostModel, ReadingCosts
from service.privacy.composition.planning.plan import Plan
from service.privacy.questions.complement import LARGE_RATE

ANSWER: Final = 90
"""Cost of looking up what was computed, and writing one answer."""
INLINE_LIMIT: Final = 10_000
"""Microseconds: sum of the ceilings of closed forms up to which the event loop computes them. It is half of what the
loop may be held up for, as first readings in a process that has done other things take longer."""
EXTREME_MU, EXTREME_RATE = 4, 1e-25
"""Ratio of the cost of mu over a range that goes on to rates below this one. Rates of 0 are not searched for."""
UNCERTAINTY: Final = 32.0
"""By how many times estimates may be too high."""
UNCERTAINTY_OF_GROUND_TRUTHS: Final = 4.0
"""The same for ground truths: most of their cost is a contour, which all questions share."""


def quote(
    plans: Sequence[Plan],
    cost_of: Callable[[CostModel | Ceiling], float],
    beside: float = 0.0,
    prepared: Planned | None = None,
) -> Quote:
    """Return what readings of these plans cost together, and `beside` them; in the event loop only where all plans have
    a ceiling. `cost_of`: the readings by a cost model. `begun`: what answers the request, going on from these plans.

    The cost is no more than the allowance, at which readings end. Ground truths are worth nothing without their digits,
    so that what surely takes too long is for jobs.
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
    """Whether a request with this quote has the allowance of a job."""
    return quoted.minimum > SURELY_TOO_LONG


MOST_LOOKED_AT: Final = 600
"""Mechanisms, phases of schedules, adversaries and subpopulations in a description: the parts of longer ones take as
long to make as the event loop may be held up, so that only a worker makes them."""
EXACT_PARTS: Final = 5
UNPRICED: Final = "unpriced"
"""In place of an engine, of longer descriptions."""
UNPRICED_BASE, UNPRICED_PART, UNPRICED_MOST = 300_000, 500, 15_000_000
"""Cost of such a description: each of its parts on some contours for each of a few readings."""


def unpriced(mechanism: MechanismSpec, threat_models: Sequence[ThreatModelSpec], readings: int) -> Quote | None:
    """Return the quote of a description that has more parts than `MOST_LOOKED_AT`; None of others."""
    if is_one_step(mechanism) and all(type(each) is WorstCaseThreatModel for each in threat_models):
        return None  # there are fewer threat models than parts that are looked at
    return _unpriced(parts_of(mechanism, threat_models), readings)


def unpriced_together(described: Sequence[tuple[MechanismSpec, ThreatModelSpec]], readings: int) -> Quote | None:
    """Return the quote of several descriptions, each read `readings` times; None where they have few parts."""
    return _unpriced(sum(parts_of(mechanism, (model,)) for mechanism, model in described), readings)


def _unpriced(parts: int, readings: int) -> Quote | None:
    if parts <= MOST_LOOKED_AT:
        return None
    cost = min(UNPRICED_BASE + UNPRICED_PART * parts * readings, UNPRICED_MOST)
    return Quote(cost, engine=UNPRICED, uncertainty_factor=UNCERTAINTY, ceiling=UNPRICED_MOST)


def parts_of(mechanism: MechanismSpec, threat_models: Sequence[ThreatModelSpec]) -> int:
    """Return the number of parts of a description."""
    nodes = nodes_of(mechanism)
    exact = sum(isinstance(node, NoisySgdMechanism) for node in nodes)  # whose parameters are fractions
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
    """Return the cost of all answers to these questions, but for writing them. Equal questions are read once; limits of
    the likelihood ratio need nothing that is built.
    """
    if len(questions) == 1:  # the sums below, of one
        (question,) = questions
        costs = model.readings(both=question.direction == "both")
        if _reads_limits(question):
            return costs.limit
        return _build(model, (question.direction,)) + _question_cost(question, costs)
    limits, read = dict[Direction, float](), set[Direction]()
    readings: list[float] = []
    for question in dict.fromkeys(questions):
        costs = model.readings(both=question.direction == "both")
        if _reads_limits(question):
            limits[question.direction] = costs.limit
        else:
            readings.append(_question_cost(question, costs))
            read.add(question.direction)
    most = max(readings, default=0.0)
    return sum(limits.values()) + _build(model, read) + most + model.reuse * (math.fsum(readings) - most)


def curves_cost(directions: Sequence[Direction], points: int, model: CostModel | Ceiling) -> float:
    """Return the cost of curves of these directions, each with so many points."""
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


def _reads_limits(question: QuestionSpec) -> bool:
    """Whether nothing but extreme likelihood ratios are read: without a rate, or at one where nobody is called what the
    value is about.
    """
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


def _question_cost(question: QuestionSpec, costs: ReadingCosts) -> float:
    """Return the cost of one question. There is no default: a type checker finds the type that is missing."""
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
