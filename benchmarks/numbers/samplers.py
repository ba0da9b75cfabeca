"""Schedules of many phases, and the attacks that lower ends of brackets name, run on the data that they name."""

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

RUNS: Final = 1_000_000
AT_ONCE: Final = 20_000
BAND: Final = 4.0
"""Standard deviations of a share of runs: one in 16 000 is outside by chance."""
SHUFFLED: Final = ((0.5, 20, 4.0), (1.0, 50, 3.5))
"""Noise, batches an epoch, and the threshold of their largest sum over the noise."""
FIXED: Final = (1.0, 0.05, 20)
"""Noise, share of the records in a batch, batches."""
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
    choose.pair(DpSgd(noise_multiplier=1.0, sample_rate=0.01, steps=100)).both.epsilon(1e-5)  # modules are loaded
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


def _shuffled(case: tuple[float, int, float]) -> tuple[object, ...]:
    """All others -u, the record u or empty: known offsets taken off, one random batch is moved by 2 or by 1."""
    noise, batches, threshold = case
    rng = np.random.default_rng(1)

    def said(moved: float) -> float:
        def chunk(count: int) -> FloatArray:
            sums = rng.normal(0.0, noise, (count, batches))
            sums[np.arange(count), rng.integers(batches, size=count)] += moved
            return sums.max(axis=1)

        return _share(chunk, threshold * noise)

    found = said(1.0), said(2.0)
    run = DpSgd(noise_multiplier=noise, sample_rate=1 / batches, steps=batches, sampling="shuffled")
    alpha, power = (
        -math.expm1(_log_normal(threshold - moved / noise) + (batches - 1) * _log_normal(threshold)) for moved in (1, 2)
    )
    served = choose.pair(run, neighbours=Neighbours("zero_out")).add.power_at(alpha)
    if not served.lower * (1 - 1e-9) <= power <= served.upper:  # the test is one of those that were searched
        return f"shuffled, {case}", found[0], alpha, found[1], power, math.inf
    return f"shuffled, {case}", found[0], alpha, found[1], power, _off(found, (alpha, power))


def _fixed() -> tuple[object, ...]:
    """All others -u, the record u in place of another -u: a batch holds it with the chance of its share."""
    noise, share, steps = FIXED
    rng, mu = np.random.default_rng(2), 2 / noise

    def said(present: bool) -> Callable[[int], FloatArray]:
        def chunk(count: int) -> FloatArray:
            drawn = rng.random((count, steps)) < (share if present else 0.0)
            sums = rng.normal(size=(count, steps)) + mu * drawn
            return np.log1p(share * np.expm1(mu * sums - 0.5 * mu * mu)).sum(axis=1)

        return chunk

    found = _share(said(present=False), 1.0), _share(said(present=True), 1.0)
    run = DpSgd(noise_multiplier=noise, sample_rate=share, steps=steps, sampling="fixed_without_replacement")
    attained = choose.pair(run).add  # the same pair of laws as where the record is added
    power = attained.power_at(found[0]).lower
    # The rate itself is a measurement: along the curve it moves the power by at most as many deviations.
    slope = (power - attained.power_at(0.99 * found[0]).lower) / (0.01 * found[0])
    spread = math.hypot(_deviation(power), slope * _deviation(found[0]))
    return f"fixed, {FIXED}", found[0], found[0], found[1], power, f"{abs(found[1] - power) / spread:.2f}"


def _share(chunk: Callable[[int], FloatArray], threshold: float) -> float:
    return sum(int((chunk(AT_ONCE) > threshold).sum()) for _ in range(RUNS // AT_ONCE)) / RUNS


def _log_normal(x: float) -> float:
    return math.log1p(-0.5 * math.erfc(x / math.sqrt(2)))


def _deviation(share: float) -> float:
    return math.sqrt(share * (1 - share) / RUNS)


def _off(found: tuple[float, float], expected: tuple[float, float]) -> str:
    return f"{max(abs(a - b) / _deviation(b) for a, b in zip(found, expected, strict=True)):.2f}"
