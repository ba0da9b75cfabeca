"""Exact laws of few shuffled reports, and the concave envelope of the powers of several pairs of laws."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

Counts = tuple[int, ...]
Law = Sequence[Fraction]


def reported(law: dict[Counts, Fraction], value: int, p: Fraction, options: int) -> dict[Counts, Fraction]:
    """Return the exact law of the counts with one more randomised response of a person with `value`."""
    found: dict[Counts, Fraction] = {}
    for counts, mass in law.items():
        for each in range(options):
            more = tuple(number + (index == each) for index, number in enumerate(counts))
            found[more] = found.get(more, Fraction(0)) + mass * (p if each == value else 1) / (p + options - 1)
    return found


def pairs_of_laws(
    reports: int, options: int, p: Fraction, held: int | None
) -> Iterator[tuple[list[Fraction], list[Fraction]]]:
    """Yield the exact laws (H0, H1) of the counts for every data set of the others, in both directions.

    `held` is the number of other persons who hold 1; None for every data set.
    """
    for others in itertools.combinations_with_replacement(range(options), reports - 1):
        if held is not None and sum(others) != held:
            continue
        law = {(0,) * options: Fraction(1)}
        for value in others:
            law = reported(law, value, p, options)
        one, other = reported(law, 0, p, options), reported(law, 1, p, options)
        masses = [one[key] for key in one], [other[key] for key in one]
        yield masses
        yield masses[1], masses[0]


def corners(absent: Law, present: Law) -> list[tuple[Fraction, Fraction]]:
    """Return false positive rates and powers of all tests by likelihood ratios, given the laws under H0 and H1."""
    found = [(Fraction(0), Fraction(0))]
    for null, mass in sorted(zip(absent, present, strict=True), key=lambda each: each[1] / each[0], reverse=True):
        found.append((found[-1][0] + null, found[-1][1] + mass))
    return found


def envelope(pairs: Sequence[tuple[Law, Law]]) -> Callable[[Fraction], Fraction]:
    """Return the concave envelope of the powers of several pairs of laws, as a function of the false positive rate."""
    hull: list[tuple[Fraction, Fraction]] = []
    for rate, power in sorted(set(itertools.chain.from_iterable(itertools.starmap(corners, pairs)))):
        if hull and hull[-1][0] == rate:
            hull.pop()
        while len(hull) > 1 and (power - hull[-2][1]) * (hull[-1][0] - hull[-2][0]) >= (hull[-1][1] - hull[-2][1]) * (
            rate - hull[-2][0]
        ):
            hull.pop()
        hull.append((rate, power))

    def power_at(rate: Fraction) -> Fraction:
        for (left, low), (right, high) in itertools.pairwise(hull):
            if left <= rate <= right:
                return low + (high - low) * (rate - left) / (right - left)
        raise ValueError(rate)

    return power_at


def composed(laws: Sequence[Law]) -> list[Fraction]:
    """Return the law of independent outcomes of several laws."""
    found = [Fraction(1)]
    for law in laws:
        found = [mass * each for mass in found for each in law]
    return found
