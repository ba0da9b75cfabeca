"""What a request costs: its questions or its points, at the prices of its mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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
from service.computations.abstract import Computes, Quote
from service.computations.allowance import MOST_WORK, SURELY_TOO_LONG, WORK_OF_A_JOB
from service.privacy.composition.planning.plan import Plan
from service.privacy.composition.planning.tariff import Prices, Tariff
from service.privacy.questions.complement import LARGE_RATE

ANSWER: Final = 90
"""Price of looking up what was read, and writing one answer."""
INLINE_LIMIT: Final = 10_000
"""Microseconds: what the ceilings of closed forms may come to together for the event loop to read them. Half of what it
may be held up for, as first readings in a process that has done other things take longer."""


FIRST_READINGS, FURTHER_READINGS = 8, 1 / 8
"""Readings of one curve that cost what one does, and the share of it that others cost: lines and lattices are kept."""
EXTREME_MU, EXTREME_RATE = 4, 1e-25
"""How much dearer mu is over a range that goes on to rates below this one. Rates of 0 are not searched for."""


CEILING: Final = 6.0
"""How many times the ceilings of closed forms are what they cost where there is much to read."""
DOUBT: Final = 32.0
"""By how many times prices of curves may be too high: half of what took less than 15 s among what was priced above 20
was so by more than 4, and next to nothing by more than this.
"""


def quote(priced: Sequence[tuple[float, Plan]], beside: float = 0.0, begun: Computes | None = None) -> Quote:
    """What readings of these plans cost together, and `beside` them; in the event loop only where all are closed.
    `begun`: what answers there, going on from these plans.

    No more than the allowance, at which they end; but ground truths are worth nothing without their digits, so that
    what surely takes too long is for jobs.
    """
    if len(priced) == 1:  # nearly always: what there is one of is not searched or summed
        ((total, dearest),) = priced
        closed = dearest.closed
    else:
        closed = all(plan.closed for _, plan in priced)
        total = math.fsum(each for each, _ in priced)
        _, dearest = max(priced, key=lambda each: each[0])
    ceiling = math.ceil(total + beside)
    if closed and ceiling <= INLINE_LIMIT:
        return Quote(ceiling, inline=True, engine=dearest.engine, most=ceiling, begun=begun)
    expected = math.fsum(each / CEILING if plan.closed else each for each, plan in priced)
    for_a_job = dearest.engine == ONLY_WHERE_ASKED and expected > DOUBT * SURELY_TOO_LONG
    most = WORK_OF_A_JOB if for_a_job else MOST_WORK
    cost = expected if for_a_job else min(expected, most)
    return Quote(math.ceil(cost + beside), engine=dearest.engine, doubt=DOUBT, most=math.ceil(most + beside))


def is_for_a_job(quoted: Quote) -> bool:
    """Whether a request that was quoted so has the allowance of one."""
    return quoted.least > SURELY_TOO_LONG


MOST_LOOKED_AT: Final = 600
"""Mechanisms, phases of schedules, adversaries and subpopulations in a description: the parts of longer ones take as
long to make as the event loop may be held up, so that nobody looks at them before a worker does."""
EXACT_PARTS: Final = 5
UNSEEN: Final = "unseen"
"""In place of an engine, of what nobody looked at."""
UNSEEN_BASE, UNSEEN_PART, UNSEEN_MOST = 300_000, 500, 15_000_000
"""What a description costs that nobody looks at: each of its parts on some lines for each of a few readings."""


def unseen(mechanism: MechanismSpec, threat_models: Sequence[ThreatModelSpec], readings: int) -> Quote | None:
    """The quote of a description that has more parts than are looked at for a price; None of others."""
    if is_one_step(mechanism) and all(type(each) is WorstCaseThreatModel for each in threat_models):
        return None  # there are fewer threat models than parts that are looked at
    return _unseen(parts_of(mechanism, threat_models), readings)


def unseen_together(described: Sequence[tuple[MechanismSpec, ThreatModelSpec]], readings: int) -> Quote | None:
    """The same of several descriptions, each of which is read so often."""
    return _unseen(sum(parts_of(mechanism, (model,)) for mechanism, model in described), readings)


def _unseen(parts: int, readings: int) -> Quote | None:
    if parts <= MOST_LOOKED_AT:
        return None
    cost = min(UNSEEN_BASE + UNSEEN_PART * parts * readings, UNSEEN_MOST)
    return Quote(cost, engine=UNSEEN, doubt=DOUBT, most=UNSEEN_MOST)


def parts_of(mechanism: MechanismSpec, threat_models: Sequence[ThreatModelSpec]) -> int:
    """How much there is to look at in a description."""
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


def price(questions: Sequence[QuestionSpec], tariff: Tariff) -> float:
    """Microseconds of CPU, roughly, but for writing answers; of closed forms, at most. Curves keep what was read."""
    if len(questions) == 1:  # the sums below, of one
        (question,) = questions
        prices = tariff.hull if question.direction == "both" else tariff.directed
        if _reads_limits(question):
            return prices.ratio + _base(tariff, ())
        return _base(tariff, (question.direction,)) + _price(question, prices)
    total, read, limits = 0.0, set[Direction](), set[Direction]()
    readings: list[float] = []
    for question in dict.fromkeys(questions):
        prices = tariff.hull if question.direction == "both" else tariff.directed
        if _reads_limits(question):
            total += 0 if question.direction in limits else prices.ratio
            limits.add(question.direction)
        else:
            readings.append(_price(question, prices))
            read.add(question.direction)
    return total + _base(tariff, read) + (math.fsum(readings) if tariff.alone else _together(readings))


def _together(readings: Sequence[float]) -> float:
    """The dearest in full; what they leave behind makes further ones cheaper."""
    dear = sorted(readings, reverse=True)
    return math.fsum(dear[:FIRST_READINGS]) + math.fsum(dear[FIRST_READINGS:]) * FURTHER_READINGS


def curves_price(directions: Sequence[Direction], points: int, tariff: Tariff) -> float:
    """The same for curves, each read at so many points."""
    prices = (tariff.hull if direction == "both" else tariff.directed for direction in directions)
    return _base(tariff, directions) + sum(list_price(points, each) for each in prices)


def _base(tariff: Tariff, directions: Iterable[Direction]) -> float:
    if tariff.is_one_curve:
        return tariff.base
    asked = set(directions)
    return tariff.base * (2 if "both" in asked else len(asked))


def list_price(points: int, prices: Prices) -> float:
    """Of so many points at once."""
    return min(prices.spread, prices.point * points) + prices.listed_point * points


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


def _price(question: QuestionSpec, prices: Prices) -> float:
    """Of every type, without a default: a type checker sees the one that is forgotten."""
    match question:
        case TradeOffQuestion():
            return list_price(len(question.false_positive_rates), prices)
        case GdpMuQuestion():
            least = min(
                rate for rate in (question.false_positive_rate_min, question.type_two_error_min, 1.0) if rate > 0
            )
            return prices.gdp_mu * (EXTREME_MU if least < EXTREME_RATE else 1)
        case EpsilonQuestion():
            return prices.epsilon
        case DeltaQuestion() | AdvantageQuestion():
            return prices.profile
        case ReconstructionQuestion():
            return prices.point if question.candidates is None else 2 * prices.point
        case AttackAccuracyQuestion():
            return prices.profile if question.false_positive_rate is None else prices.point
        case PositivePredictiveValueQuestion(side="at_least", false_positive_rate=float() as rate):
            return prices.complement if rate < LARGE_RATE and 1 - (1 - rate) != rate else 2 * prices.point
        case PositivePredictiveValueQuestion() | NegativePredictiveValueQuestion():
            return prices.point
        case AdvantageOverPriorQuestion() | DeletionCapacityQuestion() | UnlearningGuaranteeQuestion():
            return prices.ratio
