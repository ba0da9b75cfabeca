"""Random sampled Gaussian runs: how wide `auto` answers are, at what cost, and whether the engines agree.

`python -m benchmarks.box [points] [seed]`: log-uniform in sampling rate 1e-6 to 1, steps 1 to 1e6, noise multiplier 0.3
to 100, baseline 1e-12 to 1/2, both directions. `contour` and `discretised` are both certified: enclosures that do not
meet would raise. The widest are listed. To be run with OPENBLAS_NUM_THREADS=1, as workers are.
"""

from __future__ import annotations

import sys
from statistics import median
from typing import Final

import numpy as np

from benchmarks.timing import cpu_seconds
from service.privacy.composition.options import EngineOptions
from service.privacy.enclosure import Enclosure
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built, dpsgd

TOLERANCE: Final = 1e-6
SECONDS: Final = 1.0
LISTED: Final = 15


def main(points: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    found: list[tuple[float, float, str]] = []
    for _ in range(points):
        rate, baseline = (float(10 ** random.uniform(low, np.log10(high))) for low, high in ((-6, 1.0), (-12, 0.5)))
        steps, noise = int(10 ** random.uniform(0, 6)), float(0.3 * (100 / 0.3) ** random.uniform())
        for direction in ("add", "remove"):
            found += [_measured(noise, rate, steps, baseline, direction)]
    narrow = [width <= TOLERANCE and spent <= SECONDS for width, spent, _ in found]
    print(f"{len(found)} readings: {sum(narrow) / len(found):.1%} within {TOLERANCE:g} in {SECONDS:g} s CPU")
    print(f"{sum(width <= TOLERANCE for width, _, _ in found) / len(found):.1%} within {TOLERANCE:g} at all")
    times = sorted(spent for _, spent, _ in found)
    print(f"CPU s: median {median(times):.3g}, 95 % {times[int(0.95 * len(times))]:.3g}, most {times[-1]:.3g}")
    for width, spent, case in sorted(found, reverse=True)[:LISTED]:
        print(f"  width {width:.1e}, {spent:.2f} s: {case}")


def _measured(noise: float, rate: float, steps: int, baseline: float, direction: str) -> tuple[float, float, str]:
    """Relative width, CPU seconds, and what was asked."""
    read: list[Enclosure] = []
    spent = cpu_seconds(lambda: read.append(_gamma(noise, rate, steps, baseline, direction)))
    case = f"noise {noise:.3g}, rate {rate:.3g}, steps {steps}, baseline {baseline:.3g}, {direction}"
    return read[0].relative_width(), spent, case


def _gamma(noise: float, rate: float, steps: int, baseline: float, direction: str) -> Enclosure:
    options = EngineOptions(relative_tolerance=TOLERANCE)
    pair = WorstCase().curves(built(dpsgd(noise, rate, steps)), options=options)
    curve = pair.add if direction == "add" else pair.remove
    return curve.power_at(baseline)


if __name__ == "__main__":
    main(*(int(argument) for argument in (sys.argv[1:] + ["500", "1"][len(sys.argv) - 1 :])))
