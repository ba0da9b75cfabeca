"""Membership adversary of noisy SGD: the published CIFAR run, and random runs on samples."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import cpu_seconds, median_cpu_seconds
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.noisy_sgd import NoisySgd
from service.privacy.questions import profile
from service.privacy.threat_models.membership import Membership
from service.privacy.trade_off.pair import TradeOffPair

PAPER_RUN: Final = NoisySgd(dataset_size=48_000, batch_size=400, dimension=650, steps=1200, noise_std=0.0)
NOISY_RUN: Final = replace(PAPER_RUN, noise_std=2.84, max_grad_norm=500.0)
SECONDS: Final = 0.3
WIDTH: Final = 1e-6
RUNS: Final = 60
SEED: Final = 1
LARGEST_MU: Final = 2.0
"""Largest mu of one step. Beyond this value the step reveals nearly as much as a release of the record."""

READINGS: Final[dict[str, Callable[[TradeOffPair], Enclosure]]] = {
    "advantage": lambda pair: pair.add.profile_at(0.0),
    "epsilon(1e-5), both directions": lambda pair: profile.epsilon(pair.both, 1e-5).value,
    "power at a false positive rate of 1e-3": lambda pair: pair.add.power_at(1e-3),
}


def measure() -> Section:
    section = Section("The membership adversary of noisy SGD")
    rows: list[tuple[object, ...]] = []
    for name, read in READINGS.items():
        value = _cold(PAPER_RUN, read)
        seconds = median_cpu_seconds(lambda read=read: _cold(PAPER_RUN, read))
        rows.append((f"no noise: {name}", f"{value.upper:.9g}", value.relative_width(), seconds * 1e3))
        section.reaches.append(
            Reach(
                f"noisy_sgd, 1200 sampled steps of the paper, membership: {name}",
                f"<= {SECONDS} s, relative width <= {WIDTH:g}",
                f"{milliseconds(seconds)}, {value.relative_width():.2g}",
                seconds <= SECONDS and value.relative_width() <= WIDTH,
            )
        )
    for name, read in READINGS.items():
        value = _cold(NOISY_RUN, read)
        seconds = cpu_seconds(lambda read=read: _cold(NOISY_RUN, read))
        rows.append((f"noise 2.84 (a bracket): {name}", f"{value.upper:.9g}", value.relative_width(), seconds * 1e3))
    section.tables.append(Table("The run of the paper", ("asked", "upper end", "relative width", "CPU ms, cold"), rows))
    narrow, times = _random_runs()
    section.tables.append(
        Table(
            f"{RUNS} random runs: dimension 1 to 1e6, rate .001 to 1, 2 to 1e5 steps, mu of a step to {LARGEST_MU:g}",
            ("advantage, epsilon and power together", "runs"),
            [
                ("each of relative width <= 1e-6 on lines alone", f"{narrow} of {RUNS}"),
                ("median CPU ms", f"{sorted(times)[RUNS // 2] * 1e3:.3g}"),
                ("largest CPU ms", f"{max(times) * 1e3:.3g}"),
            ],
        )
    )
    return section


def _cold(run: NoisySgd, read: Callable[[TradeOffPair], Enclosure]) -> Enclosure:
    return read(Membership().plan(run).curves)


def _random_runs() -> tuple[int, list[float]]:
    """Answer questions about random runs under the membership adversary.

    Return the number of runs with three narrow answers, and the CPU seconds of each run.
    """
    source, narrow = random.Random(SEED), 0
    times: list[float] = []
    while len(times) < RUNS:
        dimension, batch = (int(math.exp(source.uniform(0, math.log(most)))) for most in (1e6, 1e5))
        rate = math.exp(source.uniform(math.log(1e-3), 0))
        steps = int(math.exp(source.uniform(math.log(2), math.log(1e5))))
        if batch < 3 or math.sqrt(dimension / batch) > LARGEST_MU:
            continue
        run = NoisySgd(
            dataset_size=max(round(batch / rate), batch + 1),
            batch_size=batch,
            dimension=dimension,
            steps=steps,
            noise_std=0.0,
        )
        found: list[Enclosure] = []
        times.append(cpu_seconds(lambda run=run, found=found: found.extend(_on_lines(run))))
        narrow += all(value.relative_width() <= WIDTH for value in found)
    return narrow, times


def _on_lines(run: NoisySgd) -> list[Enclosure]:
    pair = Membership().plan(run, "contour").curves
    return [read(pair) for read in READINGS.values()]
