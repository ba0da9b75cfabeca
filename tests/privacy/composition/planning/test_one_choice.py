"""Compositions and selections hold one choice of data sets throughout; a single release may draw one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from service.privacy.mechanisms.shuffled.pairs import ratio_of
from service.privacy.numerics.arrays import FloatArray
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from tests.privacy.cases import built, dpsgd, laplace, sampled, selected
from tests.privacy.shuffled_laws import Law, composed, envelope, pairs_of_laws
from tests.slow_marker import sample_of, thorough

Spec = dict[str, Any]
RATES: Final = np.array([1e-4, 0.01, 0.1, 0.3, 0.7])
EPSILONS: Final = np.array([-0.5, 0.0, 0.4, 1.0])


def twice(spec: Spec) -> Spec:
    """Return two releases of a mechanism."""
    return {"type": "repeated", "steps": 2, "mechanism": spec}


SYMMETRIC_BRACKETS: Final = (
    thorough({"type": "zcdp", "rho": 1e-4}),
    thorough({"type": "rdp", "orders": [2.0], "epsilons": [1e-3]}),
    {"type": "report_noisy_max", "noise": "laplace", "scale": 50.0, "sensitivity": 1.0},
    {"type": "sparse_vector", "threshold_epsilon": 0.01, "query_epsilon": 0.01, "positives": 1},
    twice({"type": "permute_and_flip", "epsilon": 0.02}),
)
INTEGERS: Final = sampled(0.2, {"type": "discrete_laplace", "scale": 0.5, "sensitivity": 1})
ASYMMETRIC: Final = (INTEGERS, thorough(dpsgd(0.8, 0.2, 3)), thorough(sampled(0.2, laplace(0.7))))


@sample_of(2)
@pytest.mark.parametrize("beside", ASYMMETRIC)
@pytest.mark.parametrize("spec", SYMMETRIC_BRACKETS)
def test_bounds_of_each_direction_are_in_order_beside_asymmetric_steps(spec: Spec, beside: Spec) -> None:
    """A symmetric step beside a step that one direction makes easier to attack does not swap the whole run."""
    pair = WorstCase("add_or_remove_one").curves(built({"type": "composed", "mechanisms": [spec, beside]}))
    assert pair.bracket is not None
    for curve in (pair.add, pair.remove):
        assert isinstance(curve, Bracketed)
        below, above = curve.attained, curve.dominating
        assert (below.points(RATES).power.lower <= above.points(RATES).power.upper).all()
        assert (below.points(RATES).type_two_error.upper >= above.points(RATES).type_two_error.lower).all()
        assert (below.profile(EPSILONS).lower <= above.profile(EPSILONS).upper).all()


def shuffled(reports: int, epsilon: float, options: int | None = None) -> Spec:
    """Return shuffled reports of k-ary randomised response, or of any randomiser."""
    local: Spec = {"type": "pure_dp", "epsilon": epsilon}
    if options is not None:
        local = {"type": "randomized_response", "epsilon": epsilon, "options": options}
    return {"type": "shuffled_reports", "reports": reports, "randomizer": local}


def delta_of(absent: Law, present: Law, epsilon: float) -> float:
    """Return delta at `epsilon` of the laws `absent` (H0) and `present` (H1)."""
    threshold = Fraction(float(np.exp(epsilon)))
    return float(sum(max(mass - threshold * null, 0) for null, mass in zip(absent, present, strict=True)))


def rounds(reports: int, options: int | None) -> tuple[list[tuple[Law, Law]], AbstractTradeOff]:
    """Return laws of two rounds of shuffled reports with one data set in both rounds, and the served curve."""
    epsilon, kinds = 1.1, (2, 3) if options is None else (options,)
    held = [laws for kind in kinds for laws in pairs_of_laws(reports, kind, ratio_of(epsilon, -1), None)]
    curve = WorstCase("replace_one").curves(built(twice(shuffled(reports, epsilon, options)))).both
    return [(composed([absent] * 2), composed([present] * 2)) for absent, present in held], curve


@pytest.mark.parametrize(("reports", "options"), [(2, 2), thorough(3, 2), thorough(2, 3), (4, None)])
def test_rounds_of_shuffled_reports_hold_one_data_set(reports: int, options: int | None) -> None:
    """The profile of two rounds is at least that of some data set, the same in both rounds, and of no mixture."""
    held, curve = rounds(reports, options)
    for at in (0.0, 0.6):
        found, truth = curve.profile_at(at), max(delta_of(*laws, at) for laws in held)
        assert found.lower <= truth * (1 + 1e-9)
        assert found.upper >= truth * (1 - 1e-9)


@pytest.mark.thorough
def test_points_of_rounds_hold_one_data_set() -> None:
    """Enclosures of the power of two rounds of shuffled reports contain the envelope of the powers of single choices.

    A choice is a data set and an order of the hypotheses, the same in both rounds. The envelope is concave.
    """
    held, curve = rounds(3, 2)
    hull, found = envelope(held), curve.points(RATES).power
    for rate, low, high in zip(RATES.tolist(), found.lower.tolist(), found.upper.tolist(), strict=True):
        power = float(hull(Fraction(rate)))
        assert low <= power * (1 + 1e-9)
        assert high >= power * (1 - 1e-9)


def two_outcomes(rate: float, power: float) -> tuple[Law, Law]:
    """Return the laws of a test with this false positive rate and this power."""
    return [Fraction(rate), 1 - Fraction(rate)], [Fraction(power), 1 - Fraction(power)]


def test_choices_among_two_candidates_hold_one_gap() -> None:
    """The lower bound of the power of two choices is attained by data that have one gap of scores in both choices.

    It is at most the concave envelope of the powers over all gaps.
    """
    eta = 1.3
    gaps = eta * np.arange(-24, 13) / 12

    def tail(gap: float) -> float:
        return 0.5 * float(np.exp(gap)) if gap < 0 else 1 - 0.5 * float(np.exp(-gap))

    pairs = [two_outcomes(tail(gap), tail(gap + eta)) for gap in gaps.tolist()]
    hull = envelope([(composed([absent] * 2), composed([present] * 2)) for absent, present in pairs])
    curve = WorstCase("add_or_remove_one").curves(built(twice({"type": "permute_and_flip", "epsilon": eta}))).both
    low = curve.points(RATES).power.lower.tolist()
    assert all(each <= float(hull(Fraction(rate))) * (1 + 1e-9) for rate, each in zip(RATES.tolist(), low, strict=True))


def best_of_two(absent: Law, present: Law, epsilon: float) -> Fraction:
    """Return an upper bound of delta of the best of two runs, valid for every score that selects the best.

    With the likelihood ratio l = dP/dQ of H1 over H0 and the power T(u) of one run at the rate u, the bound is E_Q
    sup_u (2 l T(u) - 2 e^epsilon u)_+. T is a polygon, so the supremum is at a corner.
    """
    threshold, power = Fraction(float(np.exp(epsilon))), envelope([(absent, present)])
    rates = [Fraction(0)]
    for null, _ in sorted(zip(absent, present, strict=True), key=lambda each: each[1] / each[0], reverse=True):
        rates.append(rates[-1] + null)
    known = [(rate, power(rate)) for rate in rates]
    return sum(
        (
            max(2 * mass * at - 2 * threshold * null * rate for rate, at in known)
            for null, mass in zip(absent, present, strict=True)
        ),
        Fraction(0),
    )


def test_selection_of_shuffled_reports_holds_one_data_set() -> None:
    """The lower bound for the best of two runs is at most the largest upper bound for one data set in both runs."""
    epsilon, p = 1.4, ratio_of(1.4, -1)
    spec: Spec = {"type": "selected", "mechanism": shuffled(2, epsilon, 2), "trials": {"type": "fixed", "count": 2}}
    curve = WorstCase("replace_one").curves(built(spec)).both
    for at in (0.0, 0.3, 0.8, 1.6):
        held = float(max(best_of_two(*laws, at) for laws in pairs_of_laws(2, 2, p, None)))
        assert curve.profile_at(at).lower <= held * (1 + 1e-9)


LOSSES: Final = np.linspace(-9.0, 9.0, 1441)


def choice_by_score(eta: float, share: float) -> tuple[Law, Law]:
    """Return the laws of a choice between two candidates whose gap of scores, -`share` `eta`, grows by `eta`.

    The difference of two exponential variables of scale 1 has Laplace's law.
    """
    before, after = 0.5 * float(np.exp(-share * eta)), 1 - 0.5 * float(np.exp((share - 1) * eta))
    return two_outcomes(before, after)


def shifted(length: float, share: float) -> tuple[Law, Law]:
    """Return the laws of a choice whose losses are `share` and `share` - 1 times `length`."""
    high, low = np.exp(share * length), np.exp((share - 1) * length)
    rate = float((1 - low) / (high - low))
    return two_outcomes(rate, rate * float(high))


def preceded(profile: FloatArray, step: Callable[[float, float], tuple[Law, Law]], length: float) -> FloatArray:
    """Return the largest profile after a step whose pair is chosen for each threshold.

    `profile` has the values at LOSSES of the steps after it, which may depend on its outcome. `step` returns pairs of
    laws of two outcomes, for shares of the largest loss `length`.
    """
    best = np.zeros_like(LOSSES)
    for share in np.linspace(0.01, 0.99, 99).tolist():
        total = np.zeros_like(LOSSES)
        for absent, present in zip(*step(length, share), strict=True):
            places = LOSSES - float(np.log(float(present / absent)))
            beyond = -np.expm1(np.minimum(places, 0))
            after = np.where(places < LOSSES[0], beyond, np.interp(places, LOSSES, profile, right=0.0))
            total += float(present) * after
        best = np.maximum(best, total)
    return best


@pytest.mark.parametrize("cases", [1, thorough(40)])
def test_choice_by_score_and_exponential_step_do_not_both_come_last(cases: int) -> None:
    """The lower bound of delta is at most that of the better order of both steps, each chosen for its threshold.

    Chords of a profile are above the profile, so that the reference errs on the side of larger deltas.
    """
    random = np.random.default_rng([8, cases])
    nothing = np.maximum(-np.expm1(LOSSES), 0)
    for _ in range(cases):
        first, second = np.exp(random.uniform(-0.5, 1, 2)).tolist()
        mechanisms = [{"type": "permute_and_flip", "epsilon": first}, {"type": "exponential", "epsilon": second}]
        pair = WorstCase("add_or_remove_one").curves(built({"type": "composed", "mechanisms": mechanisms}))
        steps = (choice_by_score, first), (shifted, second)
        best = np.max([preceded(preceded(nothing, *steps[1 - i]), *steps[i]) for i in (0, 1)], axis=0)
        at = (first + second) * np.array([0.0, 0.2, 0.4, 0.6])
        found, truth = pair.both.profile(at), np.interp(at, LOSSES, best)
        assert pair.bracket is not None
        assert (found.lower <= truth * (1 + 3e-3)).all()
        assert (found.upper >= truth * (1 - 1e-2)).all()


@pytest.mark.parametrize("cases", [3, thorough(60)])
@pytest.mark.parametrize("beside", [(), (0.4,)])
def test_selection_of_exponential_steps_holds_one_shift(beside: tuple[float, ...], cases: int) -> None:
    """The lower bound of delta for the best of several exponential steps is at most that of all their outcomes.

    Every trial has the same shift of the interval of losses. The largest delta over all shifts counts. `beside` has the
    epsilons of randomised responses in each trial.
    """
    random = np.random.default_rng([9, cases, len(beside)])
    for _ in range(cases):
        length, count = float(np.exp(random.uniform(-1, 1.3))), int(random.integers(2, 4 - len(beside)))
        responses: list[Spec] = [{"type": "pure_dp", "epsilon": each} for each in beside]
        one: Spec = {"type": "composed", "mechanisms": [{"type": "exponential", "epsilon": length}, *responses]}
        curve = WorstCase("add_or_remove_one").curves(built(selected(one, "fixed", count=count))).both
        others = [two_outcomes(1 / (1 + np.exp(each)), 1 / (1 + np.exp(-each))) for each in beside]
        laws = [shifted(length, share) for share in np.linspace(0.02, 0.98, 25).tolist()]
        trials = [[composed([each[i], *(other[i] for other in others)] * count) for i in (0, 1)] for each in laws]
        for at in (random.uniform(0, 0.9, 3) * count * length).tolist():
            truth = max(delta_of(absent, present, at) for absent, present in trials)
            assert curve.profile_at(at).lower <= truth * 1.01
