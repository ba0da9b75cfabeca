"""Evidence that a claimed number is unsafe: an attack that exceeds the bound that the claim implies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from api_schemas.claims import Claim
from api_schemas.enclosures import EnclosedNumber
from api_schemas.questions import ReconstructionQuestion, TradeOffQuestion
from service.privacy.composition.planning.cost_model import CostModel, ReadingCosts
from service.privacy.questions.witness import (
    GRID,
    RATES,
    ROUNDS,
    SupportingLine,
    Witness,
    witness_above_gaussian,
    witness_above_line,
    witness_at,
    witness_at_common_rates,
)
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.pair import TradeOffPair
from service.rendering.numbers import rounded_down, rounded_up
from service.resources.abstract import ResponseFields
from service.resources.claims.implied import AtRate, Bound, GaussianCurve, Ratio, bound_of
from service.resources.numbers import enclosed_number

Direction = Literal["add", "remove", "both"]
SWAPPED: Final[dict[Direction, Direction]] = {"add": "remove", "remove": "add", "both": "both"}

LARGEST_COST: Final = 100_000
"""Microseconds of CPU time."""

ATTACKERS: Final[dict[str, str]] = {
    "worst_case": "The Neyman-Pearson test of the pair of data sets that attains the lower bound",
    "glrt": "The generalised likelihood ratio test",
    "membership": "The likelihood ratio test of the membership adversary",
    "practical": "The best test of the practical adversary",
    "mixture": "The best test of the drawn adversary",
}
"""Name of the test, by the type of the threat model."""
IN_THE_LIMIT: Final = (
    "{attacker}, at a likelihood ratio that the claim excludes. The rate tends to 0 or 1, or double precision "
    "does not resolve it."
)
NOT_LOOKED_FOR: Final = (
    "{attacker}, at some point of the curve. The search for the rate exceeds the work limit of a claim."
)
GUESSING: Final = "The constant answer 'not a member' does better than the claim allows."
AT_A_RATE: Final = (
    "{attacker}: at a false positive rate of {rate}, its power is at least {power}. The claim allows at most {allowed}."
)


def counterexample_attack(
    claim: Claim, answer: ResponseFields, curves: TradeOffPair, attacker: str, model: CostModel
) -> ResponseFields:
    """Return an attack whose certified power refutes an unsafe claim, as fields of `ShowingAttack`.

    `answer` has the number that the claim is about, `curves` are those of the run, and `attacker` is the type of the
    threat model. Rate and power of the attack are None if a search would cost more than 0.1 s of CPU time by the cost
    model `model`, or finds none.
    """
    asked: Direction = claim.question.direction
    bound, who = bound_of(claim), ATTACKERS[attacker]
    if isinstance(bound, Ratio) and bound.swapped:
        asked = SWAPPED[asked]
    if isinstance(bound, AtRate) and isinstance(claim.question, TradeOffQuestion | ReconstructionQuestion):
        power: Mapping[str, Any] = answer["points"][0]["power"] if "points" in answer else answer
        return _attack_at(who, asked, bound.rate, _with_lower_bound_as_value(power), bound.allowed)
    expensive = bound is not None and _is_too_expensive(bound, model)
    if bound is not None and not expensive:
        for direction in _directions_to_search(asked, curves):
            found = _witness(_attained_curve(getattr(curves, direction)), bound)
            if found is not None:
                power = enclosed_number(found.power, "lower")
                return _attack_at(who, direction, found.false_positive_rate, power, found.allowed)
    return {
        "test": (NOT_LOOKED_FOR if expensive else IN_THE_LIMIT).format(attacker=who),
        "direction": asked,
        "false_positive_rate": None,
        "power": None,
        "claimed_power": None,
    }


def attack_cost(claim: Claim, model: CostModel) -> float:
    """Return the estimated cost, in microseconds of CPU time, of the search for an attack on an unsafe claim.

    `model` is the cost model of the curves.
    """
    bound = bound_of(claim)
    if bound is None or _is_too_expensive(bound, model):
        return 0.0
    directions = 1 if claim.question.direction != "both" or model.one_curve else 2
    return directions * _cost(bound, model.readings())


def _is_too_expensive(bound: Bound, model: CostModel) -> bool:
    many = isinstance(bound, Ratio | GaussianCurve)
    return many and _cost(bound, model.readings()) > LARGEST_COST


def _cost(bound: Bound, costs: ReadingCosts) -> float:
    match bound:
        case SupportingLine():
            return 2 * costs.profile + costs.point
        case AtRate():
            return costs.point
        case GaussianCurve():
            return ROUNDS * costs.points(GRID)
        case Ratio():
            return costs.points(len(RATES))


def _directions_to_search(asked: Direction, curves: TradeOffPair) -> tuple[Direction, ...]:
    if asked != "both":
        return (asked,)
    return ("add",) if curves.add is curves.remove else ("add", "remove", "both")


def _attained_curve(curve: AbstractTradeOff) -> AbstractTradeOff:
    # one choice of data sets attains this curve; two curves that enclose another one need not be attained
    return curve.attained if isinstance(curve, Bracketed) else curve


def _witness(curve: AbstractTradeOff, bound: Bound) -> Witness | None:
    match bound:
        case Ratio(log_ratio):
            return witness_at_common_rates(curve, SupportingLine(log_ratio, 0.0))
        case SupportingLine():
            return witness_above_line(curve, bound)
        case AtRate(rate, allowed):
            return witness_at(curve, rate, allowed)
        case GaussianCurve(mu, rate_min, error_min):
            return witness_above_gaussian(curve, mu, rate_min, error_min)


def _attack_at(who: str, direction: Direction, rate: float, power: EnclosedNumber, allowed: float) -> ResponseFields:
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


def _with_lower_bound_as_value(number: Mapping[str, Any]) -> EnclosedNumber:
    # an attack certainly reaches the lower bound of a certified power
    ends = {end: number[f"lower{end}"] for end in ("", "_log10", "_decimal") if f"lower{end}" in number}
    known = {f"{name}{end}": number[f"{name}{end}"] for end in ends for name in ("lower", "upper")}
    found: Any = {f"value{end}": value for end, value in ends.items()} | known
    return found
