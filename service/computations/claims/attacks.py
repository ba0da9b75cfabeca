"""What shows that a claim is unsafe: the bound on all attacks that follows from it, and an attack beyond that bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from api_schemas.claims import Claim
from api_schemas.enclosures import EnclosedNumber
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
from service.computations.abstract import ResponseFields
from service.computations.numbers import enclosed_number
from service.computations.prices import list_price
from service.interop.numbers import rounded_down, rounded_up
from service.privacy.composition.tariff import Prices, Tariff
from service.privacy.questions.membership import Side
from service.privacy.questions.witness import (
    GRID,
    RATES,
    ROUNDS,
    Line,
    Witness,
    above,
    above_gaussian,
    above_line,
    above_somewhere,
)
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.pair import TradeOffPair

Direction = Literal["add", "remove", "both"]
REVERSED: Final[dict[Direction, Direction]] = {"add": "remove", "remove": "add", "both": "both"}
ALLOWED_ERROR: Final = 1 + 2.0**-48
"""What is allowed at a rate is a few products and quotients of doubles."""

LARGEST_PRICE: Final = 200_000
"""In microseconds of CPU."""

ATTACKERS: Final[dict[str, str]] = {
    "worst_case": "The Neyman-Pearson test of the pair of data sets that attains the lower end",
    "glrt": "The generalised likelihood ratio test",
    "membership": "The likelihood ratio test of the membership adversary",
    "practical": "The best test of the practical adversary",
    "mixture": "The best test of the adversary who is drawn",
}
"""By the type of the threat model."""
IN_THE_LIMIT: Final = (
    "{attacker}, at a likelihood ratio that the claim excludes: reached as the rate tends to 0 or 1, or at a rate that "
    "does not show it in double precision."
)
GUESSING: Final = "Whoever always says 'not a member' without looking does better than the claim allows."
AT_A_RATE: Final = (
    "{attacker}: at a false positive rate of {rate} it has a power of at least {power}, where the claim leaves at most "
    "{allowed}."
)


@final
@dataclass(frozen=True, slots=True)
class AtRate:
    """The bound power <= allowed at one rate."""

    rate: float
    allowed: float


@final
@dataclass(frozen=True, slots=True)
class GaussianCurve:
    """The bound of mu-GDP wherever both errors are large enough."""

    mu: float
    rate_min: float
    error_min: float


@final
@dataclass(frozen=True, slots=True)
class Ratio:
    """A bound on every likelihood ratio; `exchanged`: of the hypotheses exchanged."""

    log_ratio: float
    exchanged: bool = False


Bound = Line | AtRate | GaussianCurve | Ratio


def shown(claim: Claim, answer: ResponseFields, curves: TradeOffPair, attacker: str, tariff: Tariff) -> ResponseFields:
    """An attack on an unsafe claim, by whose certified power it is seen to be unsafe. `attacker`: the threat model.

    None is named at a rate where looking for the rate would be dear by the tariff.
    """
    asked: Direction = claim.question.direction
    bound, who = bound_of(claim), ATTACKERS[attacker]
    if isinstance(bound, Ratio) and bound.exchanged:
        asked = REVERSED[asked]
    if isinstance(bound, AtRate) and isinstance(claim.question, TradeOffQuestion | ReconstructionQuestion):
        power: Mapping[str, Any] = answer["points"][0]["power"] if "points" in answer else answer
        return _told(who, asked, bound.rate, _safe_from_below(power), bound.allowed)
    if bound is not None and not is_too_dear(bound, tariff):
        for direction in _directions(asked, curves):
            found = _witness(_attained(getattr(curves, direction)), bound)
            if found is not None:
                power = enclosed_number(found.power, "lower")
                return _told(who, direction, found.false_positive_rate, power, found.allowed)
    return {
        "test": IN_THE_LIMIT.format(attacker=who),
        "direction": asked,
        "false_positive_rate": None,
        "power": None,
        "claimed_power": None,
    }


def attack_price(claim: Claim, tariff: Tariff) -> float:
    """Microseconds of CPU, roughly, that looking for an attack takes, were the claim unsafe."""
    bound = bound_of(claim)
    if bound is None or is_too_dear(bound, tariff):
        return 0.0
    directions = 1 if claim.question.direction != "both" or tariff.is_one_curve else 2
    return directions * _price(bound, tariff.directed)


def is_too_dear(bound: Bound, tariff: Tariff) -> bool:
    """Whether an attack takes many readings, and these would cost more than people wait for gladly."""
    many = isinstance(bound, Ratio | GaussianCurve)
    return many and _price(bound, tariff.directed) > LARGEST_PRICE


def _price(bound: Bound, prices: Prices) -> float:
    match bound:
        case Line():
            return 2 * prices.profile + prices.point
        case AtRate():
            return prices.point
        case GaussianCurve():
            return ROUNDS * list_price(GRID, prices)
        case Ratio():
            return list_price(len(RATES), prices)


def _directions(asked: Direction, curves: TradeOffPair) -> tuple[Direction, ...]:
    """Where to look: an attacker who may face either direction does best in one of them at nearly every rate."""
    if asked != "both":
        return (asked,)
    return ("add",) if curves.add is curves.remove else ("add", "remove", "both")


def _attained(curve: AbstractTradeOff) -> AbstractTradeOff:
    """Of a bracket the side that is the curve of an attack."""
    return curve.attained if isinstance(curve, Bracketed) else curve


def _witness(curve: AbstractTradeOff, bound: Bound) -> Witness | None:
    match bound:
        case Ratio(log_ratio):
            return above_somewhere(curve, Line(log_ratio, 0.0))
        case Line():
            return above_line(curve, bound)
        case AtRate(rate, allowed):
            return above(curve, rate, allowed)
        case GaussianCurve(mu, rate_min, error_min):
            return above_gaussian(curve, mu, rate_min, error_min)


def _told(who: str, direction: Direction, rate: float, power: EnclosedNumber, allowed: float) -> ResponseFields:
    allowed = min(max(allowed, 0.0), 1.0)
    sentence = AT_A_RATE.format(
        attacker=who, rate=f"{rate:.6g}", power=rounded_down(power["value"]), allowed=rounded_up(allowed)
    )
    return {
        "test": GUESSING if rate == power["upper"] == 0 else sentence,
        "direction": direction,
        "false_positive_rate": rate,
        "power": power,
        "claimed_power": allowed,
    }


def _safe_from_below(number: Mapping[str, Any]) -> EnclosedNumber:
    """A power as it is said of an attack: what it surely reaches."""
    ends = {end: number[f"lower{end}"] for end in ("", "_log10", "_decimal") if f"lower{end}" in number}
    known = {f"{name}{end}": number[f"{name}{end}"] for end in ends for name in ("lower", "upper")}
    found: Any = {f"value{end}": value for end, value in ends.items()} | known
    return found


def bound_of(claim: Claim) -> Bound | None:
    """What a claim says of the power of every attack; None where no number says it."""
    value, question = claim.number, claim.question
    match question:
        case EpsilonQuestion(delta=delta):
            return Line(value, delta)
        case DeltaQuestion(epsilon=epsilon):
            return Line(epsilon, value)
        case AdvantageQuestion():
            return Line(0.0, value)
        case GdpMuQuestion(false_positive_rate_min=rate, type_two_error_min=error):
            return GaussianCurve(value, rate, error)
        case TradeOffQuestion(false_positive_rates=(rate, *_)):
            return AtRate(rate, value if claim.reads == "power" else (1 - value) * ALLOWED_ERROR)
        case ReconstructionQuestion():
            return AtRate(_baseline(question), value)
        case AttackAccuracyQuestion(prior=prior, false_positive_rate=rate):
            return _accuracy_bound(prior, rate, value)
        case _:
            return _posterior_bound(question, value)


def _baseline(question: ReconstructionQuestion) -> float:
    if question.baseline_success is not None:
        return question.baseline_success
    if question.prior_probabilities is not None:
        return max(question.prior_probabilities)
    return 1 / (question.candidates or 1)


def _accuracy_bound(prior: float, rate: float | None, value: float) -> Bound | None:
    """p power + (1 - p)(1 - alpha) <= value."""
    if prior in (0.0, 1.0):
        return None if prior == 0 or rate is None else AtRate(rate, value)
    if rate is None:
        return Line(math.log((1 - prior) / prior), (value - (1 - prior)) / prior)
    return AtRate(rate, (value - (1 - prior) * (1 - rate)) / prior + (ALLOWED_ERROR - 1) / prior)


def _posterior_bound(question: QuestionSpec, value: float) -> Bound | None:
    """What a largest or smallest posterior probability, or what is made of it, says of likelihood ratios."""
    match question:
        case PositivePredictiveValueQuestion(prior=prior, false_positive_rate=rate, side=side):
            slope = _log_odds(value) - _log_odds(prior)
            if rate is not None and 0 < rate < 1:
                return _accusation_bound(slope, rate, side)
            return _ratio(slope) if side == "at_most" else _ratio(-slope, exchanged=True)
        case NegativePredictiveValueQuestion(prior=prior, false_positive_rate=rate, side=side):
            slope = -_log_odds(value) - _log_odds(prior)
            if rate is not None and 0 < rate < 1:
                return _clearance_bound(slope, rate, side)
            return _ratio(-slope, exchanged=True) if side == "at_most" else _ratio(slope)
        case AdvantageOverPriorQuestion(prior=prior):
            return _ratio(_log_odds(value / 2 + prior) - _log_odds(prior))
        case DeletionCapacityQuestion(prior=prior, confidence=confidence):
            kept = confidence ** (1 / value) if confidence > 0 else 0.0
            return _ratio(-_log_odds(kept) - _log_odds(prior))
        case UnlearningGuaranteeQuestion(prior=prior):
            return _ratio(-_log_odds(value) - _log_odds(prior))
        case _:
            return None


def _accusation_bound(slope: float, rate: float, side: Side) -> AtRate | None:
    """power <= e^slope alpha; of the least likely of all events of this rate, power >= e^slope alpha, which bounds that
    of its complement.
    """
    if not math.isfinite(slope):
        return None
    if side == "at_most":
        return AtRate(rate, Line(slope, 0.0).at(rate))
    return AtRate(1 - rate, 1 - _product(slope, rate) + (ALLOWED_ERROR - 1))


def _clearance_bound(slope: float, rate: float, side: Side) -> AtRate | None:
    """beta >= e^slope (1 - alpha) of who is not accused; of the likeliest of all events of rate 1 - alpha, power <=
    e^slope (1 - alpha).
    """
    if not math.isfinite(slope):
        return None
    if side == "at_most":
        return AtRate(rate, 1 - _product(slope, 1 - rate) + (ALLOWED_ERROR - 1))
    return AtRate(1 - rate, Line(slope, 0.0).at(1 - rate))


def _product(slope: float, rate: float) -> float:
    return math.exp(min(slope + math.log(rate), 700.0))


def _ratio(slope: float, *, exchanged: bool = False) -> Ratio | None:
    return Ratio(slope, exchanged) if math.isfinite(slope) else None


def _log_odds(probability: float) -> float:
    """ln p/(1 - p); infinite at the ends and beyond."""
    if probability <= 0:
        return -math.inf
    return math.inf if probability >= 1 else math.log(probability) - math.log1p(-probability)
