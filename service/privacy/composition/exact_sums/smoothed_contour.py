"""Contour inversion for a run of randomised responses with a small additional Gaussian noise.

The run has N_i steps with the loss +-eps_i each, and the loss L in total. L has no density, and its transform does not
decay along a contour. With an additional Gaussian step of shift tau, the transform decays. One Fourier transform then
gives the profile of both on a grid of thresholds c. Let z = 1/2 + r + it, and V ~ N(-tau^2/2, tau^2) under H0 the loss
of the Gaussian step. Let K(z) = ln E0 e^{z(L + V)}. Then:

    ln E0 e^{zL} = sum N_i (ln cosh((r + it) eps_i) - ln cosh(eps_i/2));
    D(c) = E0(e^{L+V} - e^c)_+ = (1/2 pi) int e^{K(z) - (z - 1) c}/(z (z - 1)) dt    for r > 1/2.

For |r| < 1/2 the integral is minus E0 min(e^{L+V}, e^c). Without the denominator it is e^c times the density of L + V
at c under H0.

Let T be 2 pi divided by the spacing of nodes. The trapezoidal rule adds the function at c + jT, j != 0 (copies). These
terms are positive, and Chernoff bounds them. The truncation beyond the last node decays like e^{-tau^2 t^2/2}. Every
other factor is at most 1, so that the errors of factors add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.log_cosh import log_cosh
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.transform_length import fast_length

ComplexArray = NDArray[np.complex128]

CHUNK: Final = 4096
"""Number of nodes whose factors are multiplied together, until the product is negligible."""
MULTIPLIED: Final = 64
"""Largest count of a power by multiplication. Larger powers use logarithms."""
FACTORS_PER_CHECK: Final = 4
"""Number of factors between checks for a negligible product."""
NEGLIGIBLE: Final = 1e-13
"""Product that counts as 0, and its error, which is smaller than the rounding."""
END: Final = 5.0
"""Last node in units of 1/tau. There the Gaussian factor is e^-12.5, and the denominator is large."""
MOST_NODES: Final = 2**19
DISTANCES: Final = (1.0, 2.0, 3.5, 5.0, 8.0, 12.0)
"""Distances of the tilts that bound the copies of the profile, in units of 1/deviation."""
FLATTEST: Final = 350.0
"""Nats: the square of 1/cosh(FLATTEST) is a normal double."""
FINEST: Final = 2.0**-40
"""Smallest deviation and shift, as shares of the largest loss and of a threshold.

They are some thousand times the rounding of these numbers.
"""
MOST_GROWTH: Final = 300.0
"""Nats: a lower bound that subtracts more than e^MOST_GROWTH times the density is useless."""
GOAL: Final = 28.0
"""Nats: approximate distance of the copies below the result."""


@final
class ResponseCumulants:
    """Log-moment function K(s) = ln E0 e^{sL} of a run's loss L (nats) at real tilts s = 1/2 + r, with derivatives.

    The run has independent steps with the losses +-epsilon, the worst case of epsilon-DP steps.
    """

    def __init__(self, kinds: tuple[tuple[float, int], ...]) -> None:
        """Store the kinds (epsilon > 0, number of steps) of the run."""
        listed = sorted(kinds, reverse=True)
        self.epsilon = np.array([epsilon for epsilon, _ in listed])
        self.count = np.array([float(count) for _, count in listed])
        self._at_half = math.fsum((self.count * log_cosh(0.5 * self.epsilon)).tolist())
        self.largest = math.fsum((self.count * self.epsilon).tolist())
        """Sum of all losses."""

    def value(self, r: float) -> float:
        """Return the log-moment function K(1/2 + r) = ln E0 e^{(1/2 + r) L} of the run's loss L.

        It has no unit.
        """
        return math.fsum((self.count * log_cosh(r * self.epsilon)).tolist()) - self._at_half

    def error(self, r: float) -> float:
        """Return a bound of the absolute error of `value(r)` by roundings of functions and of products."""
        x = np.abs(r) * self.epsilon
        sizes = self.count * (log_cosh(x) + x * np.tanh(x))
        return 4 * FUNCTION_ERROR * (float(sizes.sum()) + self._at_half) + 4 * UNIT_ROUNDOFF

    def mean(self, r: float) -> float:
        """Return the mean K'(1/2 + r) of the loss L under the law tilted by e^{(1/2 + r) L}, nats."""
        return float((self.count * self.epsilon * np.tanh(r * self.epsilon)).sum())

    def deviation(self, r: float) -> float:
        """Return the standard deviation of the loss L under the law tilted by e^{(1/2 + r) L}, nats.

        The deviation is sqrt(K''(1/2 + r)) with the log-moment function K(s) = ln E0 e^{sL}, limited below by the
        resolution of thresholds.
        """
        x = np.minimum(np.abs(r) * self.epsilon, FLATTEST)
        own = math.sqrt(float((self.count * (self.epsilon / np.cosh(x)) ** 2).sum()))
        return max(own, FINEST * self.largest)


@dataclass(frozen=True, slots=True)
class SmoothedNodes:
    """Results of a contour Re z = 1/2 + r at the thresholds c_k = center + k h of spacing h.

    L is the loss of the run without the Gaussian noise. `lower` and `upper` bound D(c) = E0(e^L - e^c)_+ for r > 1/2,
    or E0 min(e^L, e^c) for |r| < 1/2, in units of e^{log_scale - (r - 1/2) c}. All arrays have the shape (nodes,).
    """

    r: float
    thresholds: FloatArray
    spacing: float
    log_scale: float
    log_error: float
    """Error of the logarithm of the unit."""
    lower: FloatArray
    upper: FloatArray


@final
class SmoothedContour:
    """Contour Re z = 1/2 + r for the profile of a run of +-epsilon steps with a Gaussian step of shift tau.

    `low` and `high` are the smallest and the largest threshold of the loss, on both sides of the tilted mean. Each step
    has the loss +epsilon or -epsilon. D(c) is the profile at the threshold c, and K the log-moment function of the
    total loss. The copies are the terms D(c + j T), j != 0, that the trapezoidal rule of period T adds.
    """

    def __init__(self, cumulants: ResponseCumulants, r: float, tau: float, low: float, high: float) -> None:
        self._run, self._r = cumulants, r
        tau = max(tau, FINEST * max(abs(low), abs(high)))
        self._deviation = max(cumulants.deviation(r), tau)
        strip = (-0.5, 0.5) if abs(r) < 0.5 else (0.5, math.inf)
        size = self._deviation * max(abs(r * r - 0.25), self._deviation**-2)
        copies = [self._copies(side, strip, low, high, GOAL + math.log(size), tau) for side in (-1, 1)]
        period = max(distance for distance, _, _ in copies)
        # If the number of nodes would be too large, more noise gives fewer nodes and wider bounds.
        self._tau = max(tau, END * period / (2 * math.pi * MOST_NODES))
        self._step = 2 * math.pi / period
        self._nodes = math.ceil(END / (self._tau * self._step))
        self._copied = [(tilt, self._smoothed(tilt) - self._smoothed(r)) for _, tilt, _ in copies]
        self._center = cumulants.mean(r) + self._tau**2 * r
        self._low, self._high, self._period = low, high, period
        self.is_usable = max(0.125 * self._tau**2, abs(r) * self._tau) <= MOST_GROWTH
        """Whether the contour has usable results; not if the necessary noise hides the run."""

    def _smoothed(self, r: float, tau: float | None = None) -> float:
        """Return K(1/2 + r) = ln E0 e^{(1/2 + r)(L + V)}, with the losses L of the run and V of the Gaussian step.

        `tau` is the shift of the Gaussian step, or None for that of the contour.
        """
        tau = self._tau if tau is None else tau
        return self._run.value(r) + 0.5 * tau**2 * (r * r - 0.25)

    def _copies(
        self, side: int, strip: tuple[float, float], low: float, high: float, goal: float, tau: float
    ) -> tuple[float, float, float]:
        """Return `(period, tilt, rise)`: the period 2 pi/(node spacing) that reduces the copies on one side to e^-goal.

        The copies are the terms f(c + j period), j != 0, that the trapezoidal rule adds to f(c), the inverted function
        of the threshold c. K(r) stands for the log-moment function at 1/2 + r, where the contour crosses the real axis.
        For every r' in the interval `strip`, Chernoff's inequality gives f(c) <= e^{K(r') - (r' - r) c}. `tilt` is the
        best r', and `rise` is K(r') - K(r). `low` and `high` limit the thresholds c. `tau` is the shift of the added
        Gaussian step.
        """
        found: list[tuple[float, float, float]] = []
        here = self._smoothed(self._r, tau)
        for distance in DISTANCES:
            tilt = min(max(self._r + side * distance / self._deviation, strip[0]), strip[1])
            if tilt == self._r:
                continue
            rise = self._smoothed(tilt, tau) - here
            reached = (rise + goal) / abs(tilt - self._r)
            found.append((reached - low if side > 0 else reached + high, tilt, rise))
        return min(found)

    def nodes(self) -> SmoothedNodes:
        """Compute the bounds of D(c) = E0(e^L - e^c)_+ or E0 min(e^L, e^c) at all thresholds c (nats) of the contour.

        L is the loss of the run.
        """
        r, tau = self._r, self._tau
        thresholds, h, profile, density, profile_error, density_error = self._sums()
        # The noise adds at most tau^2 e^{tau^2/8} e^c times the density (`smoothed_responses.py`).
        gap = tau**2 * math.exp(0.125 * tau**2) * (np.maximum(density, 0.0) + density_error) * (1 + 1e-9)
        lower, upper = profile - profile_error - self._copied_mass(thresholds), profile + profile_error
        moved = 8 * UNIT_ROUNDOFF * (abs(self._center) + self._period)
        error = self._run.error(r) + moved * (abs(r) + 2) + 4 * UNIT_ROUNDOFF
        if r < 0.5:
            return SmoothedNodes(r, thresholds, h, self._smoothed(r), error, np.maximum(lower, 0.0), upper + gap)
        # Thresholds are rounded, and D decreases at each of them no faster than over the cell before it.
        lower = np.maximum(lower - gap, 0.0)
        fall = moved * (upper[:-1] * math.exp((r - 0.5) * h) - lower[1:]) / -math.expm1(-h)
        lower, upper = np.maximum(lower[1:] - fall, 0.0), upper[1:] + fall
        return SmoothedNodes(r, thresholds[1:], h, self._smoothed(r), error, lower, upper)

    def _sums(self) -> tuple[FloatArray, float, FloatArray, FloatArray, float, float]:
        """Return thresholds, spacing, D or E0 min, the density times e^c, and errors of the last two.

        The thresholds c and their spacing are in nats. The contour is Re z = 1/2 + r. L is the loss of the run, and V
        that of its noise. The function is D(c) = E0(e^{L+V} - e^c)_+ for r > 1/2, and E0 min(e^{L+V}, e^c) for |r| <
        1/2. Both results include all copies (the terms that the trapezoidal rule adds), in a unit for each threshold.
        Arrays have the shape (nodes,). The errors are absolute bounds in these units, one number each.
        """
        r, tau = self._r, self._tau
        t: FloatArray = np.arange(self._nodes + 1, dtype=np.float64) * self._step
        product, error = self._product(t)
        weight = np.exp(-0.5 * (tau * t) ** 2)
        z = r + 1j * t
        factor = (z - 0.5) * (z + 0.5) * math.copysign(1.0, abs(r) - 0.5)
        cells = fast_length(2 * self._nodes + 2)
        h = self._period / cells
        start, end = (math.floor((end - self._center) / h) for end in (self._low, self._high))
        cells_read = np.arange(start - 3, end + 4)
        profile, density = (
            np.fft.irfft(np.conj(terms), cells)[cells_read % cells] / h
            for terms in (weight * product / factor, weight * product)
        )
        error = weight * (error + 16 * UNIT_ROUNDOFF * (math.log2(cells) + 4) * np.abs(product))
        share, left = self._step / math.pi, math.exp(-0.5 * END**2) / math.pi
        thresholds: FloatArray = self._center + cells_read.astype(np.float64) * h
        profile_error = share * float((error / np.abs(factor)).sum()) + 1.01 * left * tau / END**3
        return thresholds, h, profile, density, profile_error, share * float(error.sum()) + left / (tau * END)

    def _copied_mass(self, thresholds: FloatArray) -> FloatArray:
        """Return an upper bound of the sum of all copies that the trapezoidal rule adds, in the shape of `thresholds`.

        The thresholds c are in nats. A copy is the function at another threshold, c + j T for j != 0 and the period T
        of the rule. The bound is in the unit of each node.
        """
        total = np.zeros_like(thresholds)
        for side, (tilt, rise) in zip((-1, 1), self._copied, strict=True):
            away = abs(tilt - self._r)
            first = rise - away * (self._period + side * thresholds)
            rest = -math.expm1(-away * self._period)
            slack = self._run.error(tilt) + self._run.error(self._r) + 1e-9
            total += np.exp(np.minimum(first + slack, 700.0)) / rest
        return total

    def _product(self, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Return e^{K(r + it) - K(r) - it center} at the heights t, and a bound of its absolute error.

        Both have the shape of t. K(r + it) stands for the log-moment function at 1/2 + r + it, and `center` is the
        tilted mean of the loss in nats. The Gaussian modulus e^{-tau^2 t^2/2} of the added step of shift tau is left
        out.
        """
        run, r = self._run, self._r
        slope, flat = np.tanh(r * run.epsilon), 1 / np.cosh(np.minimum(np.abs(r) * run.epsilon, FLATTEST))
        few = run.count <= MULTIPLIED
        # The fastest decaying factors come first: often few other factors are needed.
        rows = [
            (epsilon, _turns(self._step * epsilon) if is_few else None, *others)
            for epsilon, is_few, *others in np.column_stack((run.epsilon, few, slope, flat, run.count))[
                np.argsort(-run.count * (np.minimum(run.epsilon, 1.0) * flat) ** 2)
            ].tolist()
        ]
        product = np.zeros(len(t), dtype=np.complex128)
        for start in range(0, len(t), CHUNK):
            own = t[start : start + CHUNK]
            part = np.exp(-1j * own * (self._center - self._tau**2 * r))
            for i, (epsilon, turns, tilt, flatness, count) in enumerate(rows):
                if turns is None:
                    part *= _power(own * (epsilon / math.pi), tilt, flatness, count)
                else:
                    factor = turns[: len(own)] * np.exp(1j * own[0] * epsilon)
                    factor.imag *= tilt
                    _multiply(part, factor, int(count))
                if i % FACTORS_PER_CHECK == FACTORS_PER_CHECK - 1 and float(np.abs(part).max()) < NEGLIGIBLE:
                    part = np.zeros(len(own), dtype=np.complex128)
                    break
            product[start : start + CHUNK] = part
        # Errors of angles (8 u relative), of functions, and of logarithms times counts. See `_power`.
        turning = np.where(few, run.count, run.count * np.abs(slope) + 2 * np.sqrt(run.count) * flat)
        spread = np.minimum(np.sqrt(run.count) * np.abs(slope) / flat, 2 * run.count)
        angle = 8 * UNIT_ROUNDOFF * (float((run.epsilon * turning).sum()) + 2 * abs(self._center))
        fixed = 64 * UNIT_ROUNDOFF * float(np.where(few, run.count, 8 + 2 * spread).sum()) + NEGLIGIBLE
        return product, fixed + angle * t


def _turns(angle: float) -> ComplexArray:
    short, long = np.exp(1j * angle * np.arange(64)), np.exp(1j * angle * np.arange(0, CHUNK, 64))
    return (long[:, None] * short).reshape(-1)


def _multiply(product: ComplexArray, factor: ComplexArray, count: int) -> None:
    """Multiply `product` in place by `factor`^`count`, by repeated squaring; |factor| is at most 1.

    `factor` is overwritten, and `count` is at least 1.
    """
    while True:
        if count % 2:
            product *= factor
        count //= 2
        if not count:
            return
        factor *= factor


def _power(half_turns: FloatArray, slope: float, flat: float, count: float) -> ComplexArray:
    """Return (cos x + i slope sin x)^count for x = pi half_turns, slope^2 + flat^2 = 1.

    The logarithm of the modulus, ln(1 - flat^2 sin^2 x)/2, and the angle are multiplied by the count N, with relative
    errors. N |ln| e^{-N |ln|} is at most 1/e. N |angle| e^{-N |ln|} is about sqrt(N) slope/flat, or at most 2 N. An
    error d of x changes the angle by slope d over the squared modulus, and the logarithm by at most flat^2 |sin x| d
    over the squared modulus.
    """
    turns = np.round(half_turns)
    x = math.pi * (half_turns - turns)
    sine, cosine = np.sin(x), np.cos(x)
    with np.errstate(divide="ignore"):
        logarithm = 0.5 * np.log1p(-np.minimum((flat * sine) ** 2, 1.0))
    angle = count * np.arctan2(slope * sine, cosine)
    sign = np.where((turns % 2 == 1) & (count % 2 == 1), -1.0, 1.0)
    return sign * np.exp(count * logarithm) * np.exp(1j * angle)
