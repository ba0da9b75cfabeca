"""One number by two engines: certified enclosures of the same value must meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure
from service.privacy.errors import NumericalFailure, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.mixture import Mixture
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.answers import curves_of
from tests.privacy.cases import built
from tests.privacy.random_cases import OF_SHIFTS, BoxPoint, RandomCase

CERTAIN: Final = ("closed_form", "contour", "discretised", "ground_truth")
"""Engines in the order in which `auto` prefers them."""
SAMPLED: Final = "monte_carlo"
LOOSE: Final = EngineOptions(relative_tolerance=1e-3, digits=15, samples=20_000, confidence=1 - 1e-9)
"""Inexpensive options: lattices for a relative width of 1e-3, and Monte Carlo intervals that fail less than once in
1e9.
"""
BOX: Final = EngineOptions(relative_tolerance=1e-6)
LAST_CHOICE: Final = 0.99
"""Options of the last engine, ball arithmetic."""
UNDERFLOW: Final = 1e-290
"""Values below this limit are compared by their logarithms."""

Ask = Callable[[], Enclosure]


@dataclass(frozen=True)
class Comparison:
    """Results of two engines for one number.

    `failure` tells that an engine found its own numbers contradictory.
    """

    family: str
    what: str
    engines: tuple[str, ...]
    enclosures: tuple[Enclosure, ...]
    failure: str = ""

    @property
    def agrees(self) -> bool:
        return not self.failure and meet(*self.enclosures)

    def __str__(self) -> str:
        ends = ", ".join(f"[{one.lower!r}, {one.upper!r}]" for one in self.enclosures)
        return f"{self.what}: {', '.join(self.engines)}: {ends} {self.failure}"


def meet(first: Enclosure, second: Enclosure) -> bool:
    """Return whether the two enclosures have a number in common."""
    if first.upper < UNDERFLOW and second.upper < UNDERFLOW:
        low, high, other_low, other_high = first.log_lower, first.log_upper, second.log_lower, second.log_upper
        if low is not None and high is not None and other_low is not None and other_high is not None:
            return max(low, other_low) <= min(high, other_high)
    return max(first.lower, second.lower) <= min(first.upper, second.upper)


def compared(family: str, what: str, engines: Iterable[tuple[str, Ask]]) -> Comparison:
    """Compare the answers of the first two engines that support a question.

    `family` names the mechanism and `what` the question, both for the report. An engine may find only when it is called
    that it does not support the question.
    """
    read: dict[str, Enclosure] = {}
    for name, ask in engines:
        try:
            read[name] = ask()
        except UnsupportedCombination:
            continue
        except NumericalFailure as failure:
            return Comparison(family, what, (*read, name), tuple(read.values()), str(failure))
        if len(read) == 2:
            return Comparison(family, what, tuple(read), tuple(read.values()))
    raise AssertionError(f"no second engine for {what}")


def comparisons(case: RandomCase) -> list[Comparison]:
    """Compare each question of the case by the engine of `auto` and by another certified engine.

    Without a second certified engine, Monte Carlo intervals serve.
    """
    # Lattices of many shifts take seconds per number, so they serve only if ball arithmetic cannot.
    choice = LAST_CHOICE if case.family in OF_SHIFTS else case.choice
    engines = _engines(built(case.spec), case.neighbours, choice)
    return [
        compared(
            case.family,
            f"{case.spec}, {case.neighbours}, {question}",
            [(name, lambda pair=pair, question=question: question.ask(pair)) for name, pair in engines],
        )
        for question in case.questions
    ]


def _engines(mechanism: AbstractMechanism, neighbours: Neighbours, choice: float) -> list[tuple[str, TradeOffPair]]:
    """Return (name, curves) of the engines in the order of their use; `choice` in [0, 1) selects the second one."""
    # Lattices of mixtures use a width of at least 1e-6 whatever the options say, and take seconds.
    certain = tuple(name for name in CERTAIN if name != "discretised" or not isinstance(mechanism, Mixture))
    pairs = curves_of(WorstCase(neighbours.relation, neighbours.records).plans(mechanism, (*certain, SAMPLED), LOOSE))
    first, *others = (name for name in pairs if name != SAMPLED)
    turn = int(choice * len(others))
    return [(name, pairs[name]) for name in (first, *others[turn:], *others[:turn], SAMPLED)]


def box_answer(point: BoxPoint, direction: str) -> Enclosure:
    """Return the power at the baseline of a random run as the service computes it, to a relative width of 1e-6."""
    return _power(point, direction, "auto", BOX)


def box_comparison(point: BoxPoint, direction: str, answer: Ask) -> Comparison:
    """Compare the power of a random run by the service with the power by another engine, least expensive first."""
    # Ball arithmetic is slow for a run that rarely samples the record, and fast for a single step.
    names = ["ground_truth", "discretised"]
    if point.steps > 1 and point.steps * point.sample_rate < 1:
        names.reverse()
    others = [(name, lambda name=name: _power(point, direction, name, LOOSE)) for name in (*names, SAMPLED)]
    return compared("box", f"{point}, {direction}", [("auto", answer), *others])


def _power(point: BoxPoint, direction: str, method: str, options: EngineOptions) -> Enclosure:
    pair = WorstCase().curves(point.mechanism, method, options)
    return (pair.add if direction == "add" else pair.remove).power_at(point.baseline)
