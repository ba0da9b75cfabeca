"""What readings of samples of the loss cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from service.privacy.composition.planning.tariff import Prices, Tariff
from service.privacy.mechanisms.abstract import GaussianPart, Steps

SAMPLED_RUN: Final = Tariff(
    base=0,
    directed=Prices(
        point=500, spread=1_000, listed_point=10, profile=500, epsilon=5_000, complement=25_000, gdp_mu=100_000
    ),
    hull=Prices(
        point=5_000, spread=10_000, listed_point=40, profile=1_000, epsilon=10_000, complement=100_000, gdp_mu=400_000
    ),
)
"""Readings of a sample that is drawn and sorted; drawing it is priced by its size."""
CHUNK: Final = 2**18
"""Draws at a time."""
TABLE, DRAWN_CHUNK = 10_000, 20_000
"""Price of a table of a law, or of a power of it; of as many draws from a table."""


def monte_carlo(steps: Steps, samples: int) -> Tariff:
    """The first reading pays for the draws of both hypotheses."""
    laws = [count for step, count in steps if not isinstance(step.part(), GaussianPart)]
    tables = sum(TABLE * (count.bit_length() + count.bit_count() - 1) for count in laws)
    chunks = len(laws) * (2_000 + DRAWN_CHUNK * samples / CHUNK)
    bands = 300 * math.sqrt(samples)
    draws = 2_000 + tables + bands + 2 * chunks + 2 * samples * (0.15 + 0.03 * len(steps))
    return replace(SAMPLED_RUN, base=draws)
