"""Practical membership privacy of the exponential mechanism: enumeration, the swap bound, and samples."""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import cpu_seconds, median_cpu_seconds
from service.privacy.pmp.exponential.exact import exact_log_ratios
from service.privacy.pmp.exponential.losses import Losses
from service.privacy.pmp.exponential.parameter import Sampling, exponential_pmp
from service.privacy.pmp.exponential.population import Population
from service.privacy.pmp.exponential.swap import swap_bounds

EPSILON, CLIP_RADIUS, OBJECTS = 30.0, 10.0, 10
ENUMERATED: Final = {12: 0.3, 14: 2.0}
"""Allowed seconds by n."""
LARGE: Final = 100
MANY_OBJECTS: Final = 32
SAMPLES: Final = 1_000


def population(half: int, objects: int, dimension: int) -> Population:
    """Draw normal points around the first of several unit vectors, as in the simulations of Lowy et al. 2023."""
    generator = np.random.default_rng(half)
    chosen = generator.normal(size=(objects, dimension))
    chosen /= np.linalg.norm(chosen, axis=1, keepdims=True)
    points = chosen[0] + generator.normal(size=(2 * half, dimension))
    return Population.of(Losses.euclidean(points, chosen, CLIP_RADIUS), EPSILON / (2 * (CLIP_RADIUS + 1)))


def measure() -> Section:
    section = Section("Practical membership privacy")
    rows: list[tuple[str, float, float, float]] = []
    for half, allowed in ENUMERATED.items():
        asked = population(half, OBJECTS, 1)
        seconds = median_cpu_seconds(lambda asked=asked: exact_log_ratios(asked))
        found = exponential_pmp(asked, swap_bounds(asked), None, exact=True).epsilon
        rows.append((f"n = {half}, {OBJECTS} objects, all subsets", seconds * 1e3, found.lower, found.upper))
        what = f"PMP by enumeration, n = {half}, m = {OBJECTS}"
        section.reaches.append(Reach(what, f"<= {allowed:g} s", milliseconds(seconds), seconds <= allowed))
    asked = population(LARGE, MANY_OBJECTS, 5)
    bounds = swap_bounds(asked)
    swap_seconds = median_cpu_seconds(lambda: swap_bounds(asked))
    what = f"PMP swap bound, n = {LARGE}, m = {MANY_OBJECTS}"
    section.reaches.append(Reach(what, "<= 1 s", milliseconds(swap_seconds), swap_seconds <= 1))
    rows.append(
        (f"n = {LARGE}, {MANY_OBJECTS} objects, swap bound", swap_seconds * 1e3, 0.0, float(bounds.either.max()))
    )
    sampling = Sampling(SAMPLES, 0, 0.999)
    seconds = cpu_seconds(lambda: exponential_pmp(asked, bounds, sampling, exact=False))
    found = exponential_pmp(asked, bounds, sampling, exact=False).epsilon
    width = (found.upper - found.lower) / (found.upper + found.lower)
    measured = f"+-{100 * width:.1f} % in {seconds:.1f} s"
    what = f"PMP by sampling, n = {LARGE}, m = {MANY_OBJECTS}"
    section.reaches.append(Reach(what, "+-10 % in 60 s", measured, width <= 0.1 and seconds <= 60))
    rows.append((f"n = {LARGE}, {MANY_OBJECTS} objects, {SAMPLES} samples", seconds * 1e3, found.lower, found.upper))
    section.tables.append(Table("epsilon of PMP, exponential mechanism", ("case", "CPU ms", "lower", "upper"), rows))
    return section
