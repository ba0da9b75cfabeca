"""Skellam noise on a query with integer values: the difference of two equal Poisson variables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Final, final

import numpy as np
from scipy.special import ive
from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.discrete.atomic_step import AtomicStep
from service.privacy.mechanisms.discrete.noise import NOISE_IS_INTEGER, SENSITIVITY_STATED, NoisyQuery, shift_of
from service.privacy.mechanisms.domain import SKELLAM_VARIANCE, WHOLE_SENSITIVITY
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.running_sums import running_sum_error, running_sums
from service.privacy.trade_off.atomic_law import AtomicLaw

BESSEL_ERROR: Final = 5e-13
"""Assumed relative error of scaled Bessel functions. 2.2e-13 was the largest found; a test repeats the search."""
WORK_OF_A_VALUE: Final = 0.6
"""Microseconds for each value of the noise."""
DEEPEST: Final = 680.0
"""Nats: noise with a probability below e^-DEEPEST is left out."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Skellam(NoisyQuery):
    """Query with integer values, with noise of the law P(x) = e^-m I_|x|(m), where m = `variance`.

    Attributes
    ----------
    variance : float
        Variance m of the noise, which is the difference of two Poisson variables of mean m/2.
    sensitivity : int
        Largest change D of the query by one record.

    Notes
    -----
    I_n is the modified Bessel function. The noise is log-concave: Poisson laws are, and convolution keeps this
    property. So the shift D is the worst of all shifts s with |s| <= D: the most powerful tests are x > t, of power
    P(x > t - s), which rises with s at the same false positive rate. Nothing is claimed for vectors.
    """

    type: ClassVar[str] = "skellam"
    type_premises = (SENSITIVITY_STATED, NOISE_IS_INTEGER)
    variance: Annotated[float, SKELLAM_VARIANCE]
    sensitivity: Annotated[int, WHOLE_SENSITIVITY]

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        shift = shift_of(self.sensitivity, self.type, neighbours)
        return SkellamStep(variance=float(self.variance), shift=shift)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SkellamStep(AtomicStep):
    """Skellam noise of variance m, shifted by D = `shift` under H1.

    Notes
    -----
    The noisy value x has the loss ln I_|x-D|(m) - ln I_|x|(m), which rises with x. The values -n..D + n are kept, where
    P(n) is about e^-DEEPEST. Ratios of consecutive terms fall: sum_{x > n} P(x) <= P(n) r/(1 - r) for
    r = P(n)/P(n - 1).
    """

    type: ClassVar[str] = "skellam"
    theorem = "Agarwal, Kairouz, Liu 2021 (Skellam noise), law of the loss"
    variance: float
    shift: int

    @property
    @override
    def law_work(self) -> float:
        return WORK_OF_A_VALUE * (math.sqrt(2 * DEEPEST * self.variance) + self.shift)

    @override
    def atomic_law(self) -> AtomicLaw:
        logs, reach, error = _log_masses(self.variance, self.shift)
        x = np.arange(self.shift + reach, -reach - 1, -1)
        absent, present = logs[np.abs(x)], logs[np.abs(x - self.shift)]
        losses = present - absent
        ratio = math.exp(float(logs[reach] - logs[reach - 1]))
        return AtomicLaw(
            losses,
            losses[:-1] - losses[1:],
            absent,
            present,
            2 * error,
            2 * error,
            2 * math.exp(float(logs[reach])) * ratio / (1 - ratio),
            is_unbounded=True,
            is_symmetric=True,
        )


@lru_cache(maxsize=16)  # plans and engines of a run ask for it many times
def _log_masses(m: float, shift: int) -> tuple[FloatArray, int, float]:
    """Return ln P(x) of Skellam noise for x = 0..n + `shift`, n, and a bound of the absolute error of every ln P(x).

    The noise is the difference of two Poisson numbers with the total variance `m`. n is the last x with P(x) of at
    least e^-DEEPEST.

    Notes
    -----
    Masses below e^-DEEPEST follow from those above by the ratios r_x = I_{x+1}/I_x, which satisfy
    r_{x-1} = 1/(2 x/m + r_x). Each step damps an error of r_x by r_x r_{x-1} < 1, so that the recurrence may start
    with Amos's bound r_x >= m/(x + 1 + sqrt((x + 1)^2 + m^2)) far above.
    """
    reach = math.ceil(8 + 2 * math.sqrt(m * DEEPEST) + 2 * DEEPEST / max(math.log(DEEPEST / m), 1.0))
    masses = ive(np.arange(reach + 1, dtype=np.float64), m)
    light = np.flatnonzero(masses < math.exp(-DEEPEST))
    reach = int(light[0]) - 1 if len(light) else reach
    logs = np.log(masses[: reach + 1])
    order = reach + shift + math.ceil(24 / math.asinh((reach + 1) / m))
    ratio, ratios = m / (order + 1 + math.hypot(order + 1, m)), list[float]()
    for x in range(order, reach, -1):
        ratio = 1 / (2 * x / m + ratio)
        ratios.append(ratio)
    steps = np.log(np.array(ratios[::-1][:shift]))
    damped = 1 - ratio * ratio
    sums = logs[-1] + running_sums(steps)
    error = BESSEL_ERROR + shift * 8 * UNIT_ROUNDOFF / damped
    error += (running_sum_error(shift) + 8 * UNIT_ROUNDOFF) * float(-sums[-1])
    return np.concatenate([logs, sums]), reach, error
