"""Schedules of many phases, and simulated attacks on the data sets that attain the lower bounds of brackets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import cpu_seconds
from service.privacy.composition.planning import choose
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff

RUNS: Final = 1_000_000
AT_ONCE: Final = 20_000
BAND: Final = 4.0
"""Allowed standard deviations of a measured share. A share exceeds them by chance once in 16 000 runs."""
SHUFFLED: Final = ((0.5, 20), (1.0, 50))
"""Noise multiplier, and batches per epoch."""
SHUFFLED_RATE: Final = 0.02
"""False positive rate of the simulated attack on shuffled batches."""
FIXED: Final = (1.0, 0.05, 20)
"""Noise multiplier, share of the records in a batch, number of batches."""
REACHES: Final = {100: 0.1, 10_000: 2.0}
WIDTH: Final = 1e-6


def measure() -> Section:
    section = Section("Samplers")
    _schedules(section)
    rows = [*map(_shuffled, SHUFFLED), _fixed()]
    columns = ("attack", "false positive rate", "theorem", "power", "theorem", "standard deviations off, at most")
    section.tables.append(Table(f"Attacks of lower ends, {RUNS:.0e} runs under each hypothesis", columns, rows))
    worst = max(float(str(row[-1])) for row in rows)
    section.reaches.append(
        Reach(
            "attacks that lower ends of brackets name, simulated",
            f"within {BAND:g} sd",
            f"{worst:.2f} sd",
            worst <= BAND,
        )
    )
    return section


def _schedules(section: Section) -> None:
    rows: list[tuple[object, ...]] = []
    choose.pair(DpSgd(noise_multiplier=1.0, sample_rate=0.01, steps=100)).both.epsilon(1e-5)  # Import the modules.
    for phases, most in REACHES.items():
        noise = tuple(np.geomspace(0.8, 2.0, phases).tolist())
        rate = tuple(np.linspace(0.005, 0.02, phases).tolist())
        run = DpSgd(noise_multiplier=noise, sample_rate=rate, steps=100 if phases == min(REACHES) else 1)
        read: list[Enclosure] = []

        def answer(run: DpSgd = run, read: list[Enclosure] = read) -> None:
            read.append(choose.pair(run).both.epsilon(1e-5))

        seconds, width = cpu_seconds(answer), read[0].relative_width()
        rows.append((phases, f"{read[0].upper:.9g}", width, milliseconds(seconds)))
        section.reaches.append(
            Reach(
                f"epsilon of a schedule of {phases} phases",
                f"<= {most:g} s, width <= {WIDTH:g}",
                f"{seconds:.2g} s, {width:.2g}",
                seconds <= most and width <= WIDTH,
            )
        )
    section.tables.append(Table("Schedules, all phases different", ("phases", "epsilon", "width", "CPU, once"), rows))


def _shuffled(case: tuple[float, int]) -> tuple[object, ...]:
    """Compare the measured power of an attack on one shuffled epoch with the certified lower bound of the power.

    The attack is a simulated likelihood ratio test, at the same false positive rate. u is a unit vector. All other
    records are -u, and the record is u or empty. Known offsets are removed: one random batch is moved by 2 or 1.
    """
    noise, batches = case
    rng, mu = np.random.default_rng(1), 1 / noise

    def statistics(moved: float) -> FloatArray:
        def chunk() -> FloatArray:
            sums = rng.normal(size=(AT_ONCE, batches))
            sums[np.arange(AT_ONCE), rng.integers(batches, size=AT_ONCE)] += moved * mu
            absent, present = (np.exp(times * mu * sums - 0.5 * (times * mu) ** 2).sum(axis=1) for times in (1, 2))
            return present / absent

        return np.concatenate([chunk() for _ in range(RUNS // AT_ONCE)])

    threshold = float(np.quantile(statistics(1.0), 1 - SHUFFLED_RATE))
    found = tuple(float((statistics(moved) > threshold).mean()) for moved in (1.0, 2.0))
    run = DpSgd(noise_multiplier=noise, sample_rate=1 / batches, steps=batches, sampling="shuffled")
    served = choose.pair(run, neighbours=Neighbours("zero_out")).add
    return f"shuffled, {case}", found[0], found[0], found[1], served.power_at(found[0]).lower, _above(served, found)


def _fixed() -> tuple[object, ...]:
    """Compare the measured power of an attack on batches of fixed size with the certified lower bound of the power.

    u is a unit vector. All other records are -u. The record u replaces one of them, and a batch contains it with the
    probability of its share.
    """
    noise, share, steps = FIXED
    rng, mu = np.random.default_rng(2), 2 / noise

    def statistics(present: bool) -> Callable[[int], FloatArray]:
        def chunk(count: int) -> FloatArray:
            drawn = rng.random((count, steps)) < (share if present else 0.0)
            sums = rng.normal(size=(count, steps)) + mu * drawn
            return np.log1p(share * np.expm1(mu * sums - 0.5 * mu * mu)).sum(axis=1)

        return chunk

    found = _share(statistics(present=False), 1.0), _share(statistics(present=True), 1.0)
    run = DpSgd(noise_multiplier=noise, sample_rate=share, steps=steps, sampling="fixed_without_replacement")
    attained = choose.pair(run).add  # The pair of distributions is the same as when the record is added.
    power = attained.power_at(found[0]).lower
    off = _spreads(attained, found, power)
    return f"fixed, {FIXED}", found[0], found[0], found[1], power, f"{abs(off):.2f}"


def _above(curve: AbstractTradeOff, found: tuple[float, ...]) -> str:
    """Return by how many standard deviations the certified lower bound is above the measured power `found`."""
    return f"{max(_spreads(curve, found, curve.power_at(found[0]).lower), 0.0):.2f}"


def _spreads(curve: AbstractTradeOff, found: tuple[float, ...], power: float) -> float:
    """Return the distance of `power` from the measured one, in standard deviations.

    `found` has the measured rate and power. The rate itself is a measurement: along the curve it moves the power by at
    most as many deviations.
    """
    slope = (power - curve.power_at(0.99 * found[0]).lower) / (0.01 * found[0])
    return (power - found[1]) / math.hypot(_deviation(found[1]), slope * _deviation(found[0]))


def _share(chunk: Callable[[int], FloatArray], threshold: float) -> float:
    return sum(int((chunk(AT_ONCE) > threshold).sum()) for _ in range(RUNS // AT_ONCE)) / RUNS


def _deviation(share: float) -> float:
    return math.sqrt(share * (1 - share) / RUNS)
