"""Shuffled reports: stored values, enumeration of all reports, direct sums, and published values that are too low."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.composed import Composed
from service.privacy.mechanisms.discrete.randomized_response import RandomizedResponse
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.neighbours import ONE_ADDED, ONE_REPLACED, Neighbours
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.mechanisms.repeated import Repeated
from service.privacy.mechanisms.shuffled.pairs import blanket, clones, own_value, ratio_of, third_value
from service.privacy.mechanisms.shuffled.shuffled_reports import ShuffledReports
from service.privacy.mechanisms.shuffled.steps import AnyShuffled, HeldOnes
from service.privacy.numerics.work import at_most
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.atoms import AtomsTradeOff
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shuffled import mean_contour
from service.privacy.trade_off.shuffled.curves import MeanCurve, OnesCurve, WorstCurve
from service.privacy.trade_off.shuffled.mean_atoms import listed_mean, listed_rare, rare_reports
from service.privacy.trade_off.shuffled.mean_contour import MeanContour
from service.privacy.trade_off.shuffled.mean_form import MeanForm, exponential
from service.privacy.trade_off.shuffled.ones import Ones
from tests.privacy.shuffled_laws import Counts, envelope, pairs_of_laws, reported
from tests.privacy.shuffled_script import script_delta
from tests.slow_marker import sample_of, thorough

ROWS = [
    row
    for row in json.loads((Path(__file__).parents[1] / "reference" / "laws.json").read_text())["rows"]
    if row["inputs"].get("mechanism", {}).get("type") == "shuffled_reports"
]
REPLACED = WorstCase("replace_one")
mp: Any = mpmath


def described(spec: dict[str, Any]) -> ShuffledReports:
    """Return the mechanism of a stored row."""
    stated = spec["randomizer"]
    randomizer: AbstractMechanism = PureDp(epsilon=stated["epsilon"])
    if stated["type"] == "randomized_response":
        randomizer = RandomizedResponse(epsilon=stated["epsilon"], options=stated["options"])
    return ShuffledReports(
        reports=spec["reports"], randomizer=randomizer, others_holding_one=spec.get("others_holding_one")
    )


def any_reports(reports: int, epsilon: float) -> ShuffledReports:
    """Return shuffled reports of any randomiser."""
    return ShuffledReports(reports=reports, randomizer=PureDp(epsilon=epsilon))


def responses(reports: int, epsilon: float, options: int, others: int | None = None) -> ShuffledReports:
    """Return shuffled randomised responses; `others` is the number of other persons who hold 1, None for the worst
    case.
    """
    randomizer = RandomizedResponse(epsilon=epsilon, options=options)
    return ShuffledReports(reports=reports, randomizer=randomizer, others_holding_one=others)


def worst(mechanism: AbstractMechanism) -> TradeOffPair:
    """Return the worst-case curves of a mechanism for one replaced record."""
    return REPLACED.curves(mechanism)


def holds(found: Enclosure, value: float, slack: float) -> bool:
    """Return whether an enclosure, widened by the relative `slack`, contains `value`."""
    return found.lower <= value * (1 + slack) and found.upper >= value * (1 - slack)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_stored_value(row: dict[str, Any]) -> None:
    inputs, value = row["inputs"], row["value"]
    curve = worst(described(inputs["mechanism"])).both
    found = curve.profile_at(inputs["epsilon"]) if "epsilon" in inputs else curve.epsilon(inputs["delta"])
    if row["kind"] in ("delta", "class_delta"):
        assert holds(found, value, row["rel_tol"])
        assert found.relative_width() <= 1e-9
    elif row["kind"].startswith("upper"):
        assert found.upper <= 1.00001 * value
        assert found.lower <= value
    else:
        assert found.lower >= 0.9999 * value
        assert found.upper >= value


@pytest.mark.parametrize(("options", "delta"), [(3, 1e-5), (4, 1e-5), (10, 1e-6), (100, 1e-7)])
def test_bounds_of_many_responses_nearly_meet(options: int, delta: float) -> None:
    found = worst(responses(1000, 0.5, options)).both.epsilon(delta)
    assert found.upper / found.lower <= 1 + 2e-3 if options == 100 else 1 + 5e-4


def all_deltas(
    reports: int, options: int, p: Fraction, thresholds: list[Fraction]
) -> Iterator[tuple[Counts, list[Fraction]]]:
    """Yield the other persons' values, and exact deltas of the own values 0 against 1, for every data set."""
    for others in itertools.combinations_with_replacement(range(options), reports - 1):
        law = {(0,) * options: Fraction(1)}
        for value in others:
            law = reported(law, value, p, options)
        present, absent = reported(law, 0, p, options), reported(law, 1, p, options)
        yield (
            others,
            [
                sum((max(present[key] - e * absent[key], Fraction(0)) for key in present), Fraction(0))
                for e in thresholds
            ],
        )


@sample_of(5)
@pytest.mark.parametrize(
    ("reports", "options"),
    [
        *[(2, 2), (3, 2), (4, 2), (5, 2), (6, 2), (2, 3), (3, 3), (4, 3), (5, 3), (6, 3)],
        *[thorough(*each) for each in ((9, 2), (12, 2), (8, 3), (3, 4), (5, 4), (4, 5))],
    ],
)
def test_enumeration_of_all_neighbours(reports: int, options: int) -> None:
    for number, epsilon in enumerate((0.4, 1.3, 2.8)):
        random = np.random.default_rng([reports, options, number])
        p = ratio_of(epsilon, -1)
        asked = (epsilon * random.uniform(0.02, 0.98, 4)).tolist()
        thresholds = [Fraction(float(math.exp(each))) for each in asked]
        found = list(all_deltas(reports, options, p, thresholds))
        exact, general = worst(responses(reports, epsilon, options)), worst(any_reports(reports, epsilon))
        for index, each in enumerate(asked):
            value = float(max(deltas[index] for _, deltas in found))
            answer, loose = exact.both.profile_at(each), general.both.profile_at(each)
            assert holds(answer, value, 1e-12)
            assert answer.relative_width() <= 1e-9
            assert loose.upper >= value * (1 - 1e-12)
            if options == 2:
                for others, deltas in found:
                    held = worst(responses(reports, epsilon, 2, sum(others))).both.profile_at(each)
                    assert held.upper >= float(deltas[index]) * (1 - 1e-12)


@pytest.mark.parametrize(
    ("reports", "options", "held"),
    [(n, k, None) for n in (2, 3, 4) for k in (2, 3)] + [(n, 2, held) for n in (2, 3, 4) for held in range(n)],
)
def test_points_are_the_envelope_of_all_data_sets(reports: int, options: int, held: int | None) -> None:
    random = np.random.default_rng([11, reports, options, 0 if held is None else held + 1])
    epsilon, rates = float(random.uniform(0.2, 2.5)), random.uniform(0.01, 0.99, 20)
    pair = worst(responses(reports, epsilon, options, held))
    hull = envelope(list(pairs_of_laws(reports, options, ratio_of(epsilon, -1), held)))
    points = pair.both.points(rates)
    for index, rate in enumerate(rates.tolist()):
        power = hull(Fraction(rate))
        ends = (points.power.at(index, pair.both.evidence), pair.both.power_at(rate))
        for found in (*ends, pair.add.power_at(rate), pair.remove.power_at(rate)):
            assert holds(found, float(power), 1e-12)
            assert found.relative_width() <= 2e-9
        error = points.type_two_error.at(index, pair.both.evidence)
        assert holds(error, float(1 - power), 1e-12)
    assert pair.bracket is None


@pytest.mark.parametrize(
    ("mechanism", "rate", "power"),
    [
        (responses(2, 0.5373, 2, 1), 0.5, 0.65057992),
        (responses(2, 1.3595, 4), 0.1, 0.34781),
        (responses(60, 2.0, 2), 0.3, 0.417958),
    ],
)
def test_point_between_data_sets(mechanism: ShuffledReports, rate: float, power: float) -> None:
    """The concave envelope of several data sets exceeds the largest power that one of them gives, and is attained."""
    pair = worst(mechanism)
    found = pair.both.power_at(rate)
    assert found.lower > power * (1 + 1e-5)
    listed = pair.both.points(np.linspace(rate, 0.9, 8)).power
    assert holds(found, float(listed.lower[0]), 1e-8)


def direct_delta(reports: int, epsilon: float, at: float) -> float:
    """Return delta of the clones construction, by a sum over their number C with tails of Bin(C, 1/2).

    A clone is another person's report that shows either value of the record with probability 1/2.
    """
    with mp.workdps(30):
        p, e = mp.exp(epsilon), mp.exp(at)
        share, x = 2 / (p + 1), p / (p + 1)
        total = mp.mpf(0)
        for c in range(reports):
            first = int(mp.ceil((c + 1) * (p * e - 1) / ((p - 1) * (e + 1))))
            tails = [sum(math.comb(c, a) for a in range(max(k, 0), c + 1)) for k in (first - 1, first)]
            inner = (x - e * (1 - x)) * tails[0] + (1 - x - e * x) * tails[1]
            total += math.comb(reports - 1, c) * share**c * (1 - share) ** (reports - 1 - c) * inner / 2**c
        return float(total)


def test_random_cases_against_direct_sums() -> None:
    random = np.random.default_rng(4)
    disagree = 0
    for _ in range(300):
        reports, epsilon = int(random.integers(2, 61)), float(random.uniform(0.05, 4.0))
        at = epsilon * float(random.uniform(0, 0.99))
        truth = direct_delta(reports, epsilon, at)
        curve = AnyShuffled(reports=reports, epsilon=epsilon).curves().both
        low, high = MeanContour(clones(reports, ratio_of(epsilon, 1))).log_deltas(np.array([at]))
        listed = curve.profile_at(at)
        disagree += not (holds(listed, truth, 1e-13) and low[0] - 1e-12 <= math.log(truth) <= high[0] + 1e-12)
        assert listed.relative_width() <= 1e-8
    assert disagree == 0


@pytest.mark.parametrize("seed", [*range(10), *map(thorough, range(10, 100))])
def test_contour_encloses_listed_profile(seed: int) -> None:
    random = np.random.default_rng([7, seed])
    epsilon, options = float(random.uniform(0.1, 5.0)), int(random.integers(3, 9))
    reports = int(random.integers(2, 30))
    p = ratio_of(epsilon, -1)
    forms = [kind(reports, options, p) for kind in (blanket, third_value, own_value)]
    for form in (*forms, forms[-1].swapped()):
        listed, top = AtomsTradeOff(listed_mean(form)), math.log(form.largest_ratio)
        at = top * random.uniform(0, 0.95, 3) ** 2
        for thresholds in (at, np.append(at, top * random.uniform(0, 0.95, 30))):  # a short and a long list
            low, high = MeanContour(form).log_deltas(thresholds)
            truth = listed.profile(thresholds)
            assert (np.exp(low) <= truth.upper).all()
            assert (np.exp(high) >= truth.lower).all()


@pytest.mark.parametrize("epsilon", [60.0, 100.0])
@pytest.mark.parametrize("reports", [10**3, 10**8])
def test_contours_of_very_large_local_epsilons(reports: int, epsilon: float) -> None:
    """Others nearly always show one value, so that the own report is seen. Beyond the largest loss delta is 0."""
    contour = MeanContour(own_value(reports, 5, ratio_of(epsilon, -1)))
    low, high = contour.log_deltas(np.array([0.0, 3.0, 0.1 * epsilon, epsilon]))
    assert np.abs(low[:3]).max() <= 1e-6
    assert np.abs(high[:3]).max() <= 1e-6
    assert high[3] == -math.inf


@sample_of(1)
@pytest.mark.parametrize("seed", range(3))
def test_points_from_the_profile_enclose_listed_points(seed: int) -> None:
    random = np.random.default_rng([8, seed])
    form = clones(int(random.integers(20, 60)), ratio_of(float(random.uniform(0.2, 3.0)), 1))
    listed, searched = AtomsTradeOff(listed_mean(form)), MeanCurve(form)
    rates = np.array([1e-9, 1e-4, 0.03, 0.4, 0.7, 0.999])
    truth, found = listed.points(rates), searched.points(rates)
    for one, other in ((truth.power, found.power), (truth.type_two_error, found.type_two_error)):
        assert (other.lower <= one.upper).all()
        assert (other.upper >= one.lower).all()
        assert (other.upper <= other.lower * 1.02 + 1e-12).all()


def test_table_encloses_the_profile() -> None:
    curve = MeanCurve(clones(2000, ratio_of(1.0, 1)))
    epsilons = np.linspace(-0.3, 0.9, 60)
    many, single = curve.profile(epsilons), [curve.profile_at(each) for each in epsilons.tolist()]
    assert (many.lower <= [each.upper for each in single]).all()
    assert (many.upper >= [each.lower for each in single]).all()
    shown = np.array([each.lower for each in single]) > 1e-12
    assert (many.upper[shown] <= 1.05 * many.lower[shown]).all()


@pytest.mark.parametrize("seed", [*range(20), *map(thorough, range(20, 300))])
def test_ones_against_exact_fractions(seed: int) -> None:
    random = np.random.default_rng([9, seed])
    reports = int(random.integers(2, 60))
    others, epsilon = int(random.integers(0, reports)), float(random.uniform(0.05, 5.0))
    p = ratio_of(epsilon, -1)
    law = {0: Fraction(1)}
    chances = [p / (p + 1)] * others + [1 / (p + 1)] * (reports - 1 - others)
    for chance in chances:
        law = {
            count: law.get(count, Fraction(0)) * (1 - chance) + law.get(count - 1, Fraction(0)) * chance
            for count in range(len(law) + 1)
        }
    at = epsilon * float(random.uniform(0, 0.98))
    threshold, truth, rest = Fraction(math.exp(at)), p / (p + 1), 1 / (p + 1)
    value = Fraction(0)
    for count in range(reports + 1):
        before, here = law.get(count - 1, Fraction(0)), law.get(count, Fraction(0))
        term = truth * before + rest * here - threshold * (rest * before + truth * here)
        value += max(term, Fraction(0))
    ones = Ones(reports, others, p)
    low, high = ones.log_delta(at)
    log_value = math.log(value)
    # The threshold above is the double nearest to e^eps.
    slack = 1e-13 * (1 + reports)
    assert low - slack <= log_value <= high + slack
    assert high - low <= 1e-8
    listed = AtomsTradeOff(ones.listed()).profile_at(at)
    assert holds(listed, float(value), slack)


@sample_of(4)
@pytest.mark.parametrize("seed", range(12))
def test_points_of_ones_by_contours_are_those_of_exact_fractions(seed: int) -> None:
    """The curve of one order of the bits, and that of an attacker who draws the order."""
    random = np.random.default_rng([12, seed])
    reports = int(random.integers(2, 40))
    others, p = int(random.integers(0, reports)), ratio_of(float(random.uniform(0.05, 4.0)), 0)
    law = {(0, 0): Fraction(1)}
    for index in range(reports - 1):
        law = reported(law, int(index < others), p, 2)
    one, other = reported(law, 1, p, 2), reported(law, 0, p, 2)
    laws = [other[key] for key in one], list(one.values())
    forth = OnesCurve(Ones(reports, others, p))
    for curve, pairs in ((forth, [laws]), (WorstCurve((forth, forth.reversed())), [laws, (laws[1], laws[0])])):
        hull = envelope(pairs)
        for rate in (1e-6, 0.02, 0.3, 0.5, 0.77, 0.999):
            power, point = hull(Fraction(rate)), curve.points(np.array([rate]))
            found, error = point.power.at(0, curve.evidence), point.type_two_error.at(0, curve.evidence)
            assert holds(found, float(power), 1e-15)
            assert holds(error, float(1 - power), 1e-15)
            assert found.relative_width() <= 1e-9
            assert error.relative_width() <= 1e-7


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("reports", [2, 10**4, 10**9])
def test_ones_next_to_the_local_epsilon(reports: int, epsilon: float) -> None:
    """Only the outcome of n ones has a larger loss, and the contour of such an unlikely outcome is short."""
    at = math.nextafter(epsilon, 0.0)
    p, threshold = exponential(epsilon), exponential(at)
    low, high = Ones(reports, 0, p).log_delta(at)
    with mp.workdps(40):
        ratio, excess = (mp.mpf(each.numerator) / each.denominator for each in (p, p - threshold))
        value = float(mp.log(excess / (ratio + 1)) - (reports - 1) * mp.log(ratio + 1))
    assert low <= value <= high
    assert high - low <= 2e-13 * abs(value)
    with at_most(1e9) as work:
        Ones(reports, reports // 2, p).log_delta(at)
        assert work.done <= 1e5


@pytest.mark.parametrize("seed", range(12))
def test_skipped_nodes_of_contours_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of contours that skip negligible nodes are those of contours with all nodes, but for rounding."""
    random = np.random.default_rng([14, seed])
    epsilon, options = float(random.uniform(0.1, 4.0)), int(random.integers(3, 40))
    reports, p = int(10.0 ** random.uniform(3, 9)), ratio_of(epsilon, -1)
    forms = [clones(reports, p), *(kind(reports, options, p) for kind in (blanket, third_value, own_value))]
    for form in forms:
        contour, at = MeanContour(form), np.array([epsilon * random.uniform(0, 5) / math.sqrt(reports)])
        with monkeypatch.context() as patch:
            patch.setattr(mean_contour, "MOST_NODES", mean_contour.FEWEST_FINELY)
            found = contour.log_deltas(at)
            patch.setattr(mean_contour, "WIDEST_SINE", 0.0)
            whole = contour.log_deltas(at)
        for one, other in zip(found, whole, strict=True):
            assert one == pytest.approx(other, rel=1e-10, abs=1e-10)


@sample_of(4)
@pytest.mark.parametrize("seed", [*range(12), *map(thorough, range(12, 200))])
def test_listed_outcomes_with_few_rare_reports_against_sums_of_many_digits(seed: int) -> None:
    random = np.random.default_rng([15, seed])
    reports, epsilon = int(10.0 ** random.uniform(2.5, 9)), float(10.0 ** random.uniform(-3, 2))
    # Few clones, or few reports other than those of the most likely kind.
    options = int(reports * 10.0 ** random.uniform(2, 5)) + 4
    p = ratio_of(epsilon, -1)
    forms = [kind(reports, options, p) for kind in (blanket, third_value, own_value)]
    forms.append(clones(reports, ratio_of(float(random.uniform(35, 100)), 1)))
    for form in [*forms, *(each.swapped() for each in forms)]:
        rare = rare_reports(form)
        if rare is None or form.reports * float(1 - max(form.weights)) > 0.01:
            continue
        listed, top = AtomsTradeOff(listed_rare(form, rare)), math.log(form.largest_ratio)
        for at in (0.0, top * float(random.uniform()) ** 3, float(random.uniform()) / reports):
            if at >= top:
                continue
            found = listed.profile_at(at)
            truth = float(direct_mean(form, exponential(at)))
            assert found.lower <= truth * (1 + 1e-15) + 1e-30
            assert found.upper >= truth * (1 - 1e-15)
            assert found.upper - found.lower <= 1e-8 * max(found.upper, 1e-20)


def direct_mean(form: MeanForm, threshold: Fraction) -> Any:
    """Return E (mean of n X)_+ from all outcomes with at most 8 rare reports, to 40 digits."""
    common = form.weights.index(max(form.weights))
    rare = [index for index in range(len(form.weights)) if index != common]
    with mp.workdps(40):
        x, weights = (
            [mp.mpf(each.numerator) / each.denominator for each in values]
            for values in (form.terms(threshold), form.weights)
        )
        total = mp.mpf(0)
        for counts in itertools.product(range(9), repeat=len(rare)):
            several = sum(counts)
            value = (form.reports - several) * x[common]
            value += sum(count * x[index] for count, index in zip(counts, rare, strict=True))
            if several > 8 or value <= 0:
                continue
            mass = mp.ff(form.reports, several) * weights[common] ** (form.reports - several)
            for count, index in zip(counts, rare, strict=True):
                mass *= weights[index] ** count / mp.factorial(count)
            total += mass * value / form.reports
        return total


@pytest.mark.parametrize("reports", [100, 10**4, 10**9])
def test_every_question_about_rare_clones_is_answered(reports: int) -> None:
    """Reports of so large an epsilon reveal nearly everything. Searches for their thresholds met a sum of -1."""
    curve = worst(responses(reports, 100.0, 10**12)).both
    points = curve.points(np.array([1e-300, 1e-9, 0.5]))
    assert (points.power.lower >= [1e-300, 1 - 1e-9, 1 - 1e-9]).all()
    assert curve.profile_at(50.0).lower >= 1 - 1e-9


@pytest.mark.parametrize("reports", [10**4, 10**6, 10**9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_held_ones_are_exact_for_many_reports(reports: int, epsilon: float) -> None:
    curve = worst(responses(reports, epsilon, 2, reports // 3)).both
    assert curve.epsilon(1e-8).relative_width() <= 1e-9
    assert curve.profile_at(3 / math.sqrt(reports) * epsilon).relative_width() <= 1e-9
    assert curve.power_at(1e-3).relative_width() <= 1e-9


@pytest.mark.parametrize("others", [0, 1999])
def test_ones_of_many_reports_agree_with_sums_of_many_digits(others: int) -> None:
    reports, epsilon, at = 2000, 1.0, 0.08
    with mp.workdps(40):
        p, threshold = mp.exp(epsilon), mp.exp(at)
        share = p / (p + 1) if others else 1 / (p + 1)
        law = [mp.binomial(1999, j) * share**j * (1 - share) ** (1999 - j) for j in range(2000)]
        terms = [
            (p - threshold) / (p + 1) * (law[j - 1] if j else 0)
            + (1 - p * threshold) / (p + 1) * (law[j] if j < 2000 else 0)
            for j in range(2001)
        ]
        truth = float(sum(max(each, 0) for each in terms))
    step = HeldOnes(reports=reports, epsilon=epsilon, others=others, exchanged=False)
    found = step.curves().add.profile_at(at)
    assert holds(found, truth, 1e-13)
    assert found.relative_width() <= 1e-10


@pytest.mark.parametrize("reports", [1000, 10**5, 10**7, 10**9])
@pytest.mark.parametrize("local", [0.1, 1.0, 4.0])
def test_bracket_of_any_randomiser(reports: int, local: float) -> None:
    found = worst(any_reports(reports, local)).both.epsilon(1e-6)
    assert 0 <= found.lower <= found.upper <= local * (1 + 1e-9)
    if 0.001 * local < found.upper < 0.5 * local:
        assert found.upper <= 1.2 * found.lower  # 15.5 % at most for many reports


@pytest.mark.parametrize("reports", [100, 1_000])
@pytest.mark.parametrize("local", [1e-3, 0.1, 1.0, 5.0])
def test_delta_at_the_local_epsilon_and_beside_it(reports: int, local: float) -> None:
    """At the epsilon of the randomiser nearly nothing is left of delta, and bounds are in order around it."""
    around = np.array([math.nextafter(local, 0), local, math.nextafter(local, 9)])
    for stated in (any_reports(reports, local), responses(reports, local, 2)):
        found = worst(stated).both.profile(around)
        assert (found.lower <= found.upper).all()
        assert found.lower[1] == 0
        assert found.upper[1] < 1e-6


def test_published_parameters_are_below_an_attained_value() -> None:
    """The parameters of wangsw/PrivacyAmplification for k-ary randomised response are below an attained delta.

    They therefore give no upper bound.
    """
    published = script_delta(2, 4, 1.508, 1.440)
    assert published == pytest.approx(0.00526, rel=2e-3)
    found = worst(responses(2, 1.508, 4)).both.profile_at(1.440)
    assert found.lower == pytest.approx(0.02374, rel=1e-3)
    ((_, attained),) = [
        (others, deltas[0])
        for others, deltas in all_deltas(2, 4, ratio_of(1.508, -1), [Fraction(math.exp(1.440))])
        if others == (0,)
    ]
    assert float(attained) == pytest.approx(found.lower, rel=1e-9)
    assert found.lower > 4 * published


def test_adaptive_randomiser_by_person_is_not_covered() -> None:
    """Randomisers that depend on reports of other persons exceed the bound, which excludes them by its premise.

    A second person who repeats the report of the first undoes the shuffling.
    """
    local, at = 1.0, 0.3
    p, e = math.exp(local), math.exp(at)
    repeated = (p - e) / (p + 1)
    assert repeated == pytest.approx(0.368, abs=1e-3)
    assert worst(any_reports(2, local)).both.profile_at(at).upper < 0.27
    assert "one_randomizer" in [each.code for each in any_reports(2, local).premises]


def test_rounds_compose() -> None:
    rounds = worst(Repeated(mechanism=any_reports(2000, 1.0), steps=10)).both.epsilon(1e-6)
    single = worst(any_reports(2000, 1.0)).both.epsilon(1e-6)
    assert single.upper < rounds.lower < rounds.upper < 10 * single.upper
    assert rounds.upper <= 1.25 * rounds.lower
    few = worst(Repeated(mechanism=responses(3, 1.0, 3), steps=4))
    assert few.bracket is not None
    assert few.both.epsilon(1e-3).upper <= 4.0
    beside = worst(Composed(mechanisms=(any_reports(500, 1.0), Gaussian(noise_multiplier=2.0)))).both.epsilon(1e-5)
    alone = worst(Gaussian(noise_multiplier=2.0)).both.epsilon(1e-5)
    assert beside.lower >= alone.lower * (1 - 1e-6)
    assert beside.upper <= beside.lower * 1.1


def test_one_report_is_not_shuffled() -> None:
    assert any_reports(1, 0.7).under(ONE_REPLACED) == PureDp(epsilon=0.7)
    assert worst(any_reports(50, 0.0)).both.profile_at(0.0).upper == 0


@pytest.mark.parametrize("neighbours", [ONE_ADDED, Neighbours("zero_out"), Neighbours("replace_one", 2)])
def test_other_neighbours_are_refused(neighbours: Neighbours) -> None:
    with pytest.raises(UnsupportedCombination, match="shuffled_reports") as error:
        any_reports(10, 1.0).under(neighbours)
    assert error.value.field == "threat_model"


def test_invalid_fields() -> None:
    with pytest.raises(OutOfDomain, match="others_holding_one"):
        responses(10, 1.0, 3, 4)
    with pytest.raises(OutOfDomain, match="others_holding_one"):
        responses(10, 1.0, 2, 10)
    with pytest.raises(OutOfDomain, match="epsilon"):
        any_reports(10, 200.0)
    with pytest.raises(UnsupportedCombination, match="shuffled_reports of gaussian"):
        ShuffledReports(reports=10, randomizer=Gaussian(noise_multiplier=1.0))


def test_forms_are_pairs_of_laws() -> None:
    p = Fraction(5, 2)
    for form in (clones(7, p), blanket(7, 5, p), third_value(7, 5, p), own_value(7, 5, p)):
        assert isinstance(form, MeanForm)
        for ratios in (form.present, form.absent):
            assert sum(weight * ratio for weight, ratio in zip(form.weights, ratios, strict=True)) == 1
        assert sum(form.weights) == 1
    largest = OnesCurve(Ones(5, 1, ratio_of(1.0, 0))).largest_log_ratio
    assert largest.lower <= 1 <= largest.upper


@pytest.mark.parametrize("seed", range(12))
def test_reports_that_reveal_nearly_everything_have_bounds(seed: int) -> None:
    """Check thresholds beyond e^710, and reports whose outcomes may have probabilities below the doubles.

    If no report is random, the output reveals the own value. A report is random with a chance of at most k/(p + k - 1).
    """
    random = np.random.default_rng([20261130, seed])
    reports, options = int(random.integers(2, 61)), int(random.choice([2, 3, 5]))
    epsilon = float(random.uniform(20, 100))
    randomizer = RandomizedResponse(epsilon=epsilon, options=options)
    for others in (None, reports // 2) if options == 2 else (None,):
        curve = REPLACED.curves(ShuffledReports(reports=reports, randomizer=randomizer, others_holding_one=others)).both
        thresholds = np.array([0.0, 1.0, epsilon / 2, epsilon, 1.001 * epsilon, 710.0, 1e4])
        delta = curve.profile(thresholds)
        assert (delta.lower <= delta.upper).all()
        assert delta.upper[0] >= 1 - reports * options * math.exp(-epsilon)
        largest = curve.largest_log_ratio.upper
        assert largest <= epsilon * (1 + 1e-12)
        assert delta.upper[3] <= largest - epsilon + 1e-12
        assert (delta.upper[4:] <= 1e-280).all()
        for threshold in thresholds.tolist():
            one = curve.profile_at(threshold)
            assert one.lower <= one.upper
            assert one.upper <= float(delta.upper[thresholds == threshold][0]) * (1 + 1e-9) + 1e-280
