"""Random mechanisms and questions for the relaxed threat models, by seed, with an independent reference for each.

Certified answers are compared with references that share no formula with them. These are simulated tests of the
adversary (draws of its statistic, from a library), another engine for the same curve, and the curves of the parts of a
mixture. They are also compared with the worst case of the same run, which no relaxed adversary exceeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
from numpy.random import Generator
from scipy.stats import norm

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.distribution_band import DistributionBand
from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.threat_models.glrt import Glrt
from service.privacy.threat_models.membership import Membership
from service.privacy.threat_models.mixture import Adversary, AdversaryMixture
from service.privacy.threat_models.practical import Practical
from service.privacy.threat_models.relaxed import worst_case_beside
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.agreement import LOOSE, Comparison
from tests.privacy.cases import Direction, built, gaussian, sampled
from tests.privacy.random_cases import RandomQuestion, Reading

DRAWS: Final = 20_000
FAILURE: Final = 1e-9
"""Failure probability of both bands of the draws, which hold at every threshold."""
ROUNDING: Final = 1e-14
"""Rounding error of formulas in doubles."""
Opinion = Callable[[RandomQuestion], Enclosure | None]


@dataclass(frozen=True)
class RelaxedCase:
    """A mechanism with an adversary, its questions, and its references, which are None for unsupported questions."""

    family: str
    mechanism: AbstractMechanism
    model: AbstractThreatModel
    questions: tuple[RandomQuestion, ...]
    opinions: tuple[tuple[str, Opinion], ...]
    is_dominated: bool = True
    """Whether the worst case dominates the adversary, which need not hold for a stated parameter."""


@dataclass(frozen=True)
class Simulated:
    """A test by draws of a statistic that increases with the likelihood ratio."""

    absent: FloatArray
    present: FloatArray

    @cached_property
    def _tails(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Bounds of the mass above each draw: lower and upper bounds under H0, then under H1.

        The first entry is for a threshold below all draws, the last for one above all draws.
        """
        band = DistributionBand.of(DRAWS, FAILURE / 2)
        at = np.concatenate(([-np.inf], np.sort(np.concatenate((self.absent, self.present))), [np.inf]))
        found: list[FloatArray] = []
        for drawn in (np.sort(self.absent), np.sort(self.present)):
            beyond = DRAWS - np.searchsorted(drawn, at, side="right")
            found += [band.share_below(beyond), np.where(np.isinf(at) & (at > 0), 0.0, band.share_above(beyond))]
        return found[0], found[1], found[2], found[3]

    def profile(self, epsilon: float) -> tuple[float, float]:
        """Return bounds of delta(epsilon), the largest P1(T > c) - e^epsilon P0(T > c) over the thresholds c, from the
        draws.

        T is the statistic. Thresholds between neighbouring draws are included.
        """
        least_absent, most_absent, least_present, most_present = self._tails
        factor = math.exp(epsilon)
        lower = max(float((least_present - factor * most_absent).max()), 0.0)
        return lower, float((most_present[:-1] - factor * least_absent[1:]).max())

    def power(self, rate: float) -> tuple[float, float]:
        """Return the smallest power of the tests whose rate may be at least this, and the largest within it."""
        least_absent, most_absent, least_present, most_present = self._tails
        surely_within = most_absent <= rate
        surely_beyond = np.flatnonzero(least_absent >= rate)
        lower = float(least_present[surely_within].max()) if surely_within.any() else 0.0
        return max(lower, rate), float(most_present[surely_beyond[-1]]) if surely_beyond.size else 1.0

    def opinion(self, question: RandomQuestion) -> Enclosure | None:
        """Return the enclosure of one number in one direction from the draws; None for an epsilon."""
        test = self if question.direction == "add" else Simulated(-self.present, -self.absent)
        if question.direction == "both" or question.reading == "epsilon":
            return None
        if question.reading == "delta":
            lower, upper = test.profile(question.at)
        else:
            lower, upper = test.power(question.at)
            if question.reading == "type_two_error":
                lower, upper = 1 - upper, 1 - lower
        return Enclosure(lower, upper, Evidence.STATISTICAL)


def relaxed_cases(count: int, questions: int, seed: int) -> list[RelaxedCase]:
    """Return `count` cases of all families in turn, each with several questions."""
    random = np.random.default_rng(seed)
    return [list(FAMILIES.values())[index % len(FAMILIES)](random, questions) for index in range(count)]


def relaxed_comparisons(case: RelaxedCase) -> list[Comparison]:
    """Compare the answer to every question of the case with each of its references, and with the worst case."""
    pair = case.model.curves(case.mechanism, "auto", LOOSE)
    worst_case = worst_case_beside(case.model, case.mechanism)
    worst = worst_case.curves(case.mechanism, "auto", LOOSE) if worst_case and case.is_dominated else None
    found: list[Comparison] = []
    for question in case.questions:
        answer = question.ask(pair)
        heard = [(name, opinion(question)) for name, opinion in case.opinions]
        if worst is not None:
            heard.append(("worst case", _no_harder(question, question.ask(worst))))
        what = f"{case.mechanism}, {case.model}, {question}"
        found += [
            Comparison(case.family, what, (answer_name, name), (answer, enclosure))
            for answer_name in (pair.add.method,)
            for name, enclosure in heard
            if enclosure is not None
        ]
    return found


def _no_harder(question: RandomQuestion, worst: Enclosure) -> Enclosure:
    """Return the enclosure of all values that an attacker no stronger than the worst case may have."""
    if question.reading == "type_two_error":
        return Enclosure(worst.lower, 1.0, worst.evidence, worst.log_lower, 0.0)
    log_upper = worst.log_upper
    return Enclosure(0.0, worst.upper, worst.evidence, None if log_upper is None else -math.inf, log_upper)


def _questions(random: Generator, count: int) -> tuple[RandomQuestion, ...]:
    found: list[RandomQuestion] = []
    for _ in range(count):
        reading = cast(
            "Reading", random.choice(["power", "type_two_error", "delta", "epsilon"], p=(0.3, 0.3, 0.3, 0.1))
        )
        at = random.uniform(0.0, 3.0) if reading == "delta" else math.exp(random.uniform(math.log(1e-5), math.log(0.6)))
        found.append(RandomQuestion(reading, at, cast("Direction", random.choice(["add", "remove"]))))
    return tuple(found)


def _spread(random: Generator, low: float, high: float) -> float:
    return math.exp(random.uniform(math.log(low), math.log(high)))


def _glrt(random: Generator, questions: int) -> RelaxedCase:
    """Draw Gaussian steps with one unknown direction, whose statistic T is chi-square.

    T is central under H0, and has the noncentrality sum 1/noise^2 under H1.
    """
    dimension = int(_spread(random, 1.0, 1000.0))
    noises = [_spread(random, 0.3, 10.0) for _ in range(random.integers(1, 4))]
    counts = [int(_spread(random, 1.0, 50.0)) for _ in noises]
    parts = [
        {"type": "repeated", "mechanism": gaussian(noise), "steps": count}
        for noise, count in zip(noises, counts, strict=True)
    ]
    shift = sum(count / noise**2 for noise, count in zip(noises, counts, strict=True))
    draws = Simulated(random.chisquare(dimension, DRAWS), random.noncentral_chisquare(dimension, shift, DRAWS))
    return RelaxedCase(
        "glrt",
        built({"type": "composed", "mechanisms": parts}),
        Glrt(dimension=dimension),
        _questions(random, questions),
        (("simulated", draws.opinion),),
    )


def _glrt_sampled(random: Generator, questions: int) -> RelaxedCase:
    """Draw one sampled step with an unknown direction, which lattices compute too if the direction is fresh in each
    step.
    """
    dimension, noise, rate = int(_spread(random, 1.0, 1000.0)), _spread(random, 0.2, 5.0), random.uniform(0.02, 0.9)
    seen = random.noncentral_chisquare(dimension, noise**-2, DRAWS)
    present = np.where(random.random(DRAWS) < rate, seen, random.chisquare(dimension, DRAWS))
    mechanism = built(sampled(rate, gaussian(noise)))
    fresh = Glrt(dimension=dimension, unknown_direction="fresh_each_step")
    opinions: list[tuple[str, Opinion]] = [
        ("simulated", Simulated(random.chisquare(dimension, DRAWS), present).opinion)
    ]
    if random.random() < 0.1:  # Expensive: every node of a lattice needs tails of chi-square laws.
        opinions.append(("discretised", lambda question: question.ask(fresh.curves(mechanism, "discretised", LOOSE))))
    return RelaxedCase(
        "glrt, sampled", mechanism, Glrt(dimension=dimension), _questions(random, questions), tuple(opinions)
    )


def _membership(random: Generator, questions: int) -> RelaxedCase:
    """Draw means of batches without noise against the membership adversary.

    The statistic is T = n |mean - gradient|^2 for batches of n records, and a small T indicates the record.
    """
    dimension, batch = int(_spread(random, 1.0, 300.0)), int(_spread(random, 2.0, 500.0))
    susceptibility = dimension * _spread(random, 0.1, 5.0)
    rate = 1.0 if random.random() < 0.5 else random.uniform(0.05, 0.9)
    steps = int(_spread(random, 1.0, 20.0)) if rate == 1 else 1
    records = max(math.ceil(batch / rate), batch)
    mechanism = built(
        {
            "type": "noisy_sgd",
            "dataset_size": records,
            "batch_size": batch,
            "dimension": dimension,
            "steps": steps,
            "noise_std": 0.0,
            "susceptibility": susceptibility,
        }
    )

    def without() -> FloatArray:
        return random.noncentral_chisquare(dimension * steps, batch * susceptibility * steps, DRAWS)

    others = random.noncentral_chisquare(dimension * steps, (batch - 1) * susceptibility * steps, DRAWS)
    drawn = random.random(DRAWS) < batch / records
    present = np.where(drawn, others * (1 - 1 / batch), without())
    draws = Simulated(-without(), -present)
    model = Membership()
    return RelaxedCase("membership", mechanism, model, _questions(random, questions), (("simulated", draws.opinion),))


def _practical(random: Generator, questions: int) -> RelaxedCase:
    """Draw the curve of a stated parameter that is harder than replacing a record.

    The references are the formula of Kairouz, Oh, Viswanath and lattices.
    """
    epsilon, delta = _spread(random, 0.05, 3.0), 0.0 if random.random() < 0.5 else _spread(random, 1e-8, 0.1)
    stated: dict[str, Any] = {"type": "approximate_dp", "epsilon": epsilon, "delta": delta}
    noise = _spread(random, 0.05, 0.2)
    pair = WorstCase().curves(built(stated), "discretised", LOOSE)
    harder = HarderOfTwo(epsilon, delta, 2 / noise)
    return RelaxedCase(
        "practical",
        built(gaussian(noise)),
        Practical(epsilon_pmp=epsilon, delta=delta),
        _questions(random, questions),
        (
            ("discretised", lambda question: harder.no_easier(question, question.ask(pair))),
            ("formula", harder.opinion),
        ),
        is_dominated=False,
    )


class HarderOfTwo:
    """Reference curve: the larger type II error of (epsilon, delta)-DP and of mu-GDP, from their formulas."""

    def __init__(self, epsilon: float, delta: float, mu: float) -> None:
        self.log_rates = np.linspace(-700.0, 0.0, 70_001)
        self._stated, self._mu = (epsilon, delta), mu
        self._powers = self._power(np.exp(self.log_rates))

    def _power(self, rates: FloatArray) -> FloatArray:
        epsilon, delta = self._stated
        stated = np.minimum(delta + math.exp(epsilon) * rates, 1 - math.exp(-epsilon) * (1 - delta - rates))
        return np.minimum(np.minimum(stated, 1.0), norm.sf(norm.isf(rates) - self._mu))

    def delta_at_least(self, epsilon: float) -> float:
        """Return a lower bound of delta: the largest power minus e^epsilon times the rate, over the rates
        of the grid.
        """
        return max(0.0, float((self._powers - np.exp(np.minimum(epsilon + self.log_rates, 700.0))).max()) - ROUNDING)

    def opinion(self, question: RandomQuestion) -> Enclosure | None:
        """Return an independent value of the answer to `question`: exact for points of the curve, else a lower bound.

        The lower bound comes from a grid of rates.
        """
        match question.reading:
            case "power" | "type_two_error":
                power = float(self._power(np.array([question.at]))[0])
                value = power if question.reading == "power" else 1 - power
                return Enclosure(value - ROUNDING, value + ROUNDING, Evidence.EXACT)
            case "delta":
                return Enclosure(self.delta_at_least(question.at), 1.0, Evidence.EXACT)
            case _:
                low, high = 0.0, 1e4
                if self.delta_at_least(low) <= question.at:
                    return Enclosure(0.0, math.inf, Evidence.EXACT)
                for _ in range(60):
                    middle = (low + high) / 2
                    low, high = (middle, high) if self.delta_at_least(middle) > question.at else (low, middle)
                return Enclosure(low, math.inf, Evidence.EXACT)

    def no_easier(self, question: RandomQuestion, stated: Enclosure) -> Enclosure | None:
        """Return the enclosure of the number for the stated parameter alone, where its curve is the harder one to
        attack.

        Elsewhere one bound only is known, or none.
        """
        if question.reading not in ("power", "type_two_error"):
            return replace(stated, lower=0.0, log_lower=None)
        power = stated.upper if question.reading == "power" else 1 - stated.lower
        return stated if power < norm.sf(norm.isf(question.at) - self._mu) else None


def _mixture(random: Generator, questions: int) -> RelaxedCase:
    """Draw a mixture of the worst case and length tests on Gaussian steps, whose profiles mix linearly."""
    weight, dimension = random.uniform(0.05, 0.95), int(_spread(random, 1.0, 300.0))
    mechanism = built({"type": "repeated", "mechanism": gaussian(_spread(random, 0.5, 5.0)), "steps": 3})
    parts = ((weight, WorstCase()), (1 - weight, Glrt(dimension=dimension)))
    model = AdversaryMixture(components=tuple(Adversary(weight=share, threat_model=part) for share, part in parts))
    pairs = [(share, part.curves(mechanism, "auto", LOOSE)) for share, part in parts]
    return RelaxedCase(
        "mixture of adversaries", mechanism, model, _questions(random, questions), (("parts", _parts(pairs)),)
    )


LEVELS: Final = np.linspace(-12.0, 12.0, 481)


def _parts(pairs: Iterable[tuple[float, TradeOffPair]]) -> Opinion:
    """Return a reference of a mixture from its parts, given as pairs of a weight w_i and the curves of the part.

    delta(eps) = sum w_i delta_i(eps). The power is bounded from below by one rate for all parts, and from above by any
    tangent.
    """
    listed = tuple(pairs)

    def answer_to(question: RandomQuestion) -> Enclosure | None:
        curves = [(share, getattr(pair, question.direction)) for share, pair in listed]
        if question.reading == "epsilon":
            return None
        if question.reading == "delta":
            found = [(share, curve.profile_at(question.at)) for share, curve in curves]
            lower, upper = (
                sum(share * one.lower for share, one in found),
                sum(share * one.upper for share, one in found),
            )
            return Enclosure(lower * (1 - 1e-14), upper * (1 + 1e-14), Evidence.EXACT)
        lower = sum(share * curve.power_at(question.at).lower for share, curve in curves)
        tangents = sum(share * curve.profile(LEVELS).upper for share, curve in curves) + np.exp(LEVELS) * question.at
        lower, upper = lower * (1 - 1e-14), min(float(tangents.min()) * (1 + 1e-14), 1.0)
        if question.reading == "type_two_error":
            return Enclosure(max(1 - upper - 1e-15, 0.0), 1 - lower + 1e-15, Evidence.EXACT)
        return Enclosure(lower, upper, Evidence.EXACT)

    return answer_to


FAMILIES: Final[dict[str, Callable[[Generator, int], RelaxedCase]]] = {
    "glrt": _glrt,
    "glrt, sampled": _glrt_sampled,
    "membership": _membership,
    "practical": _practical,
    "mixture of adversaries": _mixture,
}
