"""PMP of finite mechanisms: modular sums with exact counts, random tables against fractions, errata of the paper.

PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import mpmath
import numpy as np
import pytest

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.pmp.finite import AdjacentTable, MembershipTable, Rows
from tests.privacy.references import FOLDER
from tests.slow_marker import sample_of

ROWS: dict[str, dict[str, Any]] = {row["id"]: row for row in json.loads((FOLDER / "pmp.json").read_text())}
Table = list[list[float]]


def modular_sums(values: list[int], modulus: int) -> tuple[Rows, list[tuple[int, ...]]]:
    """Return the sum of the chosen values modulo a number, as a deterministic mechanism."""
    subsets = list(combinations(range(len(values)), len(values) // 2))
    sums = [sum(values[place] for place in subset) % modulus for subset in subsets]
    return Rows.of([[float(output == value) for output in range(modulus)] for value in sums]), subsets


def counted_sums(size: int) -> MembershipTable:
    """Return the table of the released sum modulo 2n of n of the values 0 to 2n - 1, by counting."""
    modulus = 2 * size
    sums: list[list[list[int]]] = [[], []]
    for point in range(modulus):
        counts = [[0] * modulus for _ in range(size + 1)]
        counts[0][0] = 1
        for other in range(modulus):
            if other != point:
                for chosen in range(size, 0, -1):
                    row = counts[chosen - 1]
                    counts[chosen] = [
                        held + row[(value - other) % modulus] for value, held in enumerate(counts[chosen])
                    ]
        sums[0].append([counts[size - 1][(value - point) % modulus] for value in range(modulus)])
        sums[1].append(counts[size])
    inside, outside = np.array(sums[0], dtype=np.float64), np.array(sums[1], dtype=np.float64)
    return MembershipTable(inside, outside, inside - outside, math.comb(modulus, size) // 2, 0.0)


def table_of(row: dict[str, Any]) -> MembershipTable:
    given = row["inputs"]
    if "P" in given:
        return MembershipTable.of(Rows.of(given["P"]), [[0], [1]])
    if given["n"] > 6:
        return counted_sums(given["n"])
    values = given["X"] if isinstance(given.get("X"), list) else list(range(2 * given["n"]))
    modulus = 6 if row["id"] == "mod_repeats" else 2 * given["n"]
    return MembershipTable.of(*modular_sums(values, modulus))


def meets(found: Enclosure, row: dict[str, Any]) -> bool:
    value = math.inf if row["value"] == "inf" else row["value"]
    return found.lower - row["abs_tol"] <= value <= found.upper + row["abs_tol"]


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row["notion"] in ("PMP finite", "Bayes MIA")])
def test_pmp_matches_reference(name: str) -> None:
    row = ROWS[name]
    table = table_of(row)
    if name == "mod_n6_paper":
        # The paper divides the largest by the smallest count of different outputs, which is only an upper bound.
        found = math.log(table.with_point.max() / table.without.min())
        assert found == pytest.approx(row["value"], abs=row["abs_tol"])
        assert table.epsilon().epsilon.upper < found
    elif "delta" in row["quantity"]:
        assert meets(table.delta(row["inputs"]["eps"]), row)
    elif "success" in row["quantity"]:
        assert meets(table.bayes_success(), row)
    else:
        assert meets(table.epsilon().epsilon, row)


@pytest.mark.parametrize(("size", "ratio"), [(3, (2, 1)), (4, (5, 4)), (6, (38, 37)), (7, (124, 121))])
def test_modular_sums_match_exact_ratios(size: int, ratio: tuple[int, int]) -> None:
    values = list(range(2 * size))
    with mpmath.workdps(40):
        truth = mpmath.log(mpmath.mpf(ratio[0]) / ratio[1])
        for table in (MembershipTable.of(*modular_sums(values, 2 * size)), counted_sums(size)):
            found = table.epsilon()
            assert mpmath.mpf(found.epsilon.lower) <= truth <= mpmath.mpf(found.epsilon.upper)
            assert found.epsilon.upper - found.epsilon.lower <= 1e-14 * found.epsilon.upper
            assert found.epsilon.evidence is Evidence.EXACT
    assert AdjacentTable.of(*modular_sums(values, 2 * size)).epsilon().lower == math.inf


def random_table(seed: int) -> tuple[Table, list[tuple[int, ...]]]:
    """Draw dyadic probabilities of 3 outputs for the halves of 2 to 6 points, some of them zero."""
    generator = np.random.default_rng(seed)
    points = 2 * int(generator.integers(1, 4))
    subsets = list(combinations(range(points), points // 2))
    rows = generator.multinomial(64, [0.5, 0.3, 0.2], size=len(subsets)) / 64
    generator.shuffle(order := list(range(len(subsets))))
    return rows.tolist(), [subsets[place] for place in order]


@sample_of(24)
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.3, 2.0, 599.0, 601.0, 1e6])
@pytest.mark.parametrize("seed", range(8))
def test_random_tables_match_fractions(seed: int, epsilon: float) -> None:
    rows, subsets = random_table(seed)
    points, count = 2 * len(subsets[0]), len(subsets) // 2
    pairs: list[tuple[list[Fraction], list[Fraction]]] = []
    for point in range(points):
        inside, outside = (
            [
                sum(
                    (
                        Fraction(row[output])
                        for row, subset in zip(rows, subsets, strict=True)
                        if (point in subset) is is_in
                    ),
                    Fraction(0),
                )
                / count
                for output in range(3)
            ]
            for is_in in (True, False)
        )
        pairs += [(inside, outside), (outside, inside)]
    table = MembershipTable.of(Rows.of(rows), subsets)
    assert_encloses(table.epsilon().epsilon, largest_log_ratio(pairs))
    assert_encloses(table.delta(epsilon), smallest_delta(pairs, epsilon))
    variation = max(sum((abs(p - q) for p, q in zip(*pair, strict=True)), Fraction(0)) / 2 for pair in pairs)
    assert_encloses(table.bayes_success(), mpmath.mpf(1 + variation.numerator / variation.denominator) / 2)
    laws = dict(zip(subsets, rows, strict=True))
    adjacent = [
        ([Fraction(value) for value in laws[one]], [Fraction(value) for value in laws[other]])
        for one in laws
        for other in laws
        if len(set(one) ^ set(other)) == 2
    ]
    worst = AdjacentTable.of(Rows.of(rows), subsets)
    assert_encloses(worst.epsilon(), largest_log_ratio(adjacent))
    assert_encloses(worst.delta(epsilon), smallest_delta(adjacent, epsilon))
    assert table.delta(epsilon).lower <= worst.delta(epsilon).upper  # Joint convexity.


Pairs = list[tuple[list[Fraction], list[Fraction]]]


def real(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def largest_log_ratio(pairs: Pairs) -> Any:
    with mpmath.workdps(40):
        ratios = [
            (mpmath.inf if q == 0 else mpmath.log(real(p / q)))
            for pair in pairs
            for p, q in zip(*pair, strict=True)
            if p
        ]
        return max(ratios)


def smallest_delta(pairs: Pairs, epsilon: float) -> Any:
    with mpmath.workdps(40):
        growth = mpmath.exp(mpmath.mpf(epsilon))
        return max(
            mpmath.fsum(max(real(p) - growth * real(q), 0) for p, q in zip(*pair, strict=True)) for pair in pairs
        )


def assert_encloses(found: Enclosure, truth: Any) -> None:
    assert mpmath.mpf(found.lower) <= truth <= mpmath.mpf(found.upper)
    if found.upper < math.inf:
        assert found.upper - found.lower <= 2e-12 * max(found.upper, 1.0)


def test_equal_rows_reveal_exactly_nothing() -> None:
    subsets = list(combinations(range(6), 3))
    rows = [[0.1, 0.2, 0.7]] * len(subsets)
    table, worst = MembershipTable.of(Rows.of(rows), subsets), AdjacentTable.of(Rows.of(rows), subsets)
    assert (table.epsilon().epsilon.upper, table.delta(0.0).upper, worst.epsilon().upper) == (0.0, 0.0, 0.0)


def test_ratios_beyond_largest_double_are_handled() -> None:
    rows, subsets = [[1.0, 5e-324], [0.0, 1.0]], [[0], [1]]
    for found in (MembershipTable.of(Rows.of(rows), subsets), AdjacentTable.of(Rows.of(rows), subsets)):
        assert found.delta(1e6).upper == pytest.approx(1.0, abs=1e-12)
    largest = MembershipTable.of(Rows.of([[0.5, 0.5, 5e-324], [0.5, 0.25, 0.25]]), subsets).epsilon()
    assert_encloses(largest.epsilon, mpmath.log(mpmath.mpf(2) ** 1072))


@pytest.mark.parametrize("seed", range(20))
def test_sums_that_differ_by_the_smallest_doubles_are_enclosed(seed: int) -> None:
    """Epsilon of sums that differ by a subnormal number: the quotient is rounded, or underflows to 0."""
    random = np.random.default_rng(seed)
    common, tiny, pairs = random.integers(1, 65) / 64, random.integers(1, 4) * 5e-324, 1 + seed % 2
    # A subset and its complement, in the places k and 5 - k, hold every point once.
    first = [common] * pairs + [tiny] + [0.0] * 3
    first[6 - pairs :] = [common] * pairs
    table = MembershipTable.of(Rows.of([[value, 1 - value] for value in first]), list(combinations(range(4), 2)))
    assert_encloses(table.epsilon().epsilon, mpmath.log1p(mpmath.mpf(tiny) / (pairs * mpmath.mpf(common))))


def test_rows_summing_slightly_above_one_are_normalised() -> None:
    table = MembershipTable.of(Rows.of([[1.0 + 5e-10, 0.0], [0.0, 1.0 + 5e-10]]), [[0], [1]])
    for found in (table.delta(0.0), table.delta(1e3), table.bayes_success()):
        assert 1 - 1e-12 <= found.lower <= found.upper == 1.0


def test_output_with_probability_zero_does_not_count() -> None:
    table = MembershipTable.of(Rows.of([[0.5, 0.0, 0.5], [0.25, 0.0, 0.75]]), [[0], [1]])
    found = table.epsilon()
    assert found.epsilon.upper == pytest.approx(math.log(2), rel=1e-14)
    assert (found.point_index, found.output_index, found.direction) == (0, 0, "in_over_out")


def test_randomised_response_attains_eta_and_success_bound() -> None:
    """The success of the Bayes attack attains Lemma 6 for randomised response.

    The data are one record of two, and the response is true with probability e^eps/(1 + e^eps).
    """
    chance = math.exp(1.5) / (1 + math.exp(1.5))
    table = MembershipTable.of(Rows.of([[chance, 1 - chance], [1 - chance, chance]]), [[0], [1]])
    assert table.epsilon().epsilon.upper == pytest.approx(1.5, rel=1e-13)
    assert table.bayes_success().upper == pytest.approx(chance, rel=1e-13)
