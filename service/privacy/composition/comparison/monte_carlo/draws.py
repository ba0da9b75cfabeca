"""Draws of the total loss of a run, with time and memory that do not depend on the number of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from service.privacy.composition.comparison.monte_carlo.drawn_lattice import FIRST_CELLS, DrawnLaw, repeated_law
from service.privacy.losses.law import ComposedLoss, Hypothesis
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import sum_error
from service.privacy.numerics.work import count_work

CHUNK = 2**18
ROUNDING_SHARE = 0.01
"""Change of a probability by rounded losses, in units of 1/samples: a hundredth of the resolution of sampling."""
A_DRAW = 0.1
"""Work of a draw per kind of step, in microseconds, roughly."""
MEAN_ERROR = 2 * sum_error(FIRST_CELLS + 1)
"""Error of the mean of a step's loss, relative to its root mean square."""


@final
@dataclass(frozen=True)
class Draws:
    """Draws of the total loss of a run, computed on first use.

    S is the total loss, and D the drawn number, a sum rounded to a lattice (`drawn_lattice.py`). P0 and P1 are the laws
    of H0 and H1. `samples` is the number of draws of S under each hypothesis. Equal values of `seed` give equal draws.
    """

    loss: ComposedLoss
    samples: int
    seed: int

    @cached_property
    def singular_mass(self) -> float:
        """Probability P1(S = inf) = P0(S = -inf) of outcomes that one hypothesis excludes, for the total loss S."""
        if any(law.singular_mass == 1 for law, _ in self.loss.parts):
            return 1.0
        return -math.expm1(math.fsum(count * math.log1p(-law.singular_mass) for law, count in self.loss.parts))

    @cached_property
    def sums(self) -> tuple[DrawnLaw, ...]:
        """Laws of the rounded sums of the losses of equal steps, for each kind of step that is not Gaussian."""
        others = [(law, count) for law, count in self.loss.parts if law.gaussian_mu_squared is None]
        tolerance = ROUNDING_SHARE / (self.samples * max(len(others), 1))
        return tuple(repeated_law(law, count, tolerance) for law, count in others)

    @cached_property
    def band(self) -> float:
        """Distance of S - D from its mean (nats) that is exceeded with probability of at most ROUNDING_SHARE/samples.

        S is the total loss and D its rounded sum, which is drawn.
        """
        # Every draw is spread over its cell to avoid ties. This adds a variable within an interval of one step.
        proxy = math.fsum(law.proxy + law.step**2 / 4 for law in self.sums)
        beyond = math.fsum(float(law.lost.max()) * law.step * law.masses.shape[1] for law in self.sums)
        return math.sqrt(2 * proxy * math.log(2 * self.samples / ROUNDING_SHARE)) + beyond + self._mean_error

    @cached_property
    def _mean_error(self) -> float:
        """Error bound of `shifts`, the differences of two means of the loss in nats.

        The means are sums over quadrature nodes and over cells.
        """
        sizes = (
            count * math.sqrt(float(law.cumulants(1)[1] + law.cumulants(1)[0] ** 2))
            for law, count in self.loss.parts
            if law.gaussian_mu_squared is None
        )
        return MEAN_ERROR * math.fsum(sizes)

    @cached_property
    def shifts(self) -> tuple[float, float]:
        """Means of S - D under H0 and H1 in nats, for the total loss S and its rounded sum D, which is drawn."""
        return math.fsum(law.shifts[0] for law in self.sums), math.fsum(law.shifts[1] for law in self.sums)

    @cached_property
    def slack(self) -> tuple[float, float]:
        """Upper bounds of the change of P(S > c) at any c by rounding of the total loss S, under H0 and H1."""
        own = ROUNDING_SHARE / self.samples if self.sums else 0.0
        return own + math.fsum(law.lost[0] for law in self.sums), own + math.fsum(law.lost[1] for law in self.sums)

    @cached_property
    def ascending(self) -> tuple[FloatArray, FloatArray]:
        """Draws of the rounded total loss D in increasing order under H0 and under H1, shape (samples,) each."""
        return self._drawn(0), self._drawn(1)

    def _drawn(self, hypothesis: Hypothesis) -> FloatArray:
        count_work(A_DRAW * self.samples * (1 + len(self.loss.parts)))
        random = np.random.Generator(np.random.PCG64([self.seed, hypothesis]))
        mu_squared = math.fsum(count * (law.gaussian_mu_squared or 0.0) for law, count in self.loss.parts)
        drawn = np.zeros(self.samples)
        for start in range(0, self.samples, CHUNK):
            chunk = drawn[start : start + CHUNK]
            if mu_squared > 0:
                chunk += random.normal((hypothesis - 0.5) * mu_squared, math.sqrt(mu_squared), len(chunk))
            for law in self.sums:
                counts = random.multinomial(len(chunk), law.masses[hypothesis])
                cells = np.repeat(np.arange(len(counts), dtype=np.float64), counts)
                random.shuffle(cells)
                cells += random.random(len(chunk))
                chunk += (law.start - 0.5 * law.step) + law.step * cells
            if self.singular_mass > 0:
                chunk[random.random(len(chunk)) < self.singular_mass] = math.inf if hypothesis else -math.inf
        drawn.sort()
        return drawn
