"""Composition of lattice laws at one tilt by the discrete Fourier transform, with all errors bounded.

A step has the masses P_k at the losses k h, and K(theta) = ln E0 e^{theta S} is the log-moment function of the run's
loss S. The tilted masses m_k = P_k e^{theta k h - K} of a run add up to 1. Those of the composition are the inverse
transform of the product of the steps' transforms, each to the power of its count. The errors are absolute, relative to
that sum of 1 (u is the unit of rounding):

- A transform of n non-negative numbers has an error of at most 8 u log2(n) times their sum at every frequency, because
each term passes log2 n products and sums. The N-th power has N times this error where the transform has not decayed.
- Mass outside the window of n cells wraps around. Chernoff's bound limits it on both sides (`overflow`).

Sums over the composed law are computed relative to e^{K - theta c} near the threshold c, where they are of order one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from service.privacy.composition.lattice.law import LatticeLaw
from service.privacy.composition.lattice.off_nodes import Between, OffNodeLosses, Thresholds
from service.privacy.numerics.arrays import ComplexArray, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.running_sums import running_sum_error, running_sums
from service.privacy.numerics.transform_length import fast_length
from service.privacy.numerics.work import count_work

_TRANSFORM_ERROR = 8 * UNIT_ROUNDOFF
"""Error per level of a fast Fourier transform, relative to the sum of its terms."""

_REACH = 3.0
"""Range of the thresholds around the tilted mean, in standard deviations of the tilted loss."""

_JUMPS, _LITTLE = 4e-3, 1e-11
"""Tilted mass beyond that range above which thresholds extend further, and the mass that remains beyond them.

The first is several times that of a normal law. The second is sufficiently far above the noise.
"""

_CHERNOFF_DISTANCES = (1.5, 3.0, 5.0, 8.0, 12.0)
"""Distances of the tilts that bound the mass outside the window, in units of 1/deviation."""
_DEFAULT_DISTANCE = 3
"""Index of the distance that bounds the tails of a normal law best."""

_OVERFLOW_GOAL = 37.0
"""Nats: the mass outside the window is about e^-_OVERFLOW_GOAL."""

_LEAST_WEIGHT = 1e-290
"""Smallest weight of a tilted law, relative to the farthest loss, that keeps its accuracy in doubles."""

_BLOCK_EXPONENT = 300.0
"""Nats by which a block of a decaying sum may decay."""
_MOST_DISTANCES = 128
"""Largest decay length, in cells, of sums that are computed distance by distance."""

_LARGEST_SPREAD = 1 << 21
"""Largest product of thresholds and losses between the nodes. With more, only every `stride`-th threshold is used."""

_UNDERFLOW = 1e-280
"""Upper bound of the error of products below the normal doubles."""

_FAR_CELLS = 1e-120
"""Upper bound of the sum over cells that decayed by more than e^-300. Masses and noise are at most of order one."""


@dataclass(frozen=True, slots=True)
class CountedLaw:
    """Law of one step's loss on the lattice, and the number `count` of such steps in the run."""

    law: LatticeLaw
    count: int

    def log_moment(self, tilt: float, step: float) -> tuple[float, float, float]:
        """Return K(tilt) = ln E0 e^{tilt S} of the loss S of all these steps, with K' and K'' (one number each).

        The H1-mass where H0 has none (`infinite`) is left out. `step` is the spacing of the lattice in nats.
        """
        losses, weights, top = self._tilted(tilt, step)
        total = float(weights.sum())
        mean = float(weights @ losses) / total
        variance = float(weights @ (losses - mean) ** 2) / total
        return self.count * (top + math.log(total)), self.count * mean, self.count * variance

    def log_moment_in_range(self, tilt: float, step: float) -> float:
        """Return the log-moment ln E0 e^{tilt S} of the loss S of all these steps; infinite for weights out of range.

        `step` is the spacing of the lattice.
        """
        _, weights, top = self._tilted(tilt, step)
        total = float(weights.sum())
        return self.count * (top + math.log(total)) if total >= _LEAST_WEIGHT else math.inf

    def _tilted(self, tilt: float, step: float) -> tuple[FloatArray, FloatArray, float]:
        """Return the losses of one step, their masses times e^{tilt loss - top}, and top.

        top is the largest exponent tilt * loss over all losses with mass. `step` is the spacing of the lattice.
        """
        count_work(_A_CALL + _A_WEIGHT * len(self.law.masses))
        losses, some = self.law.losses(step), self.law.masses > 0
        exponents = tilt * losses  # monotone
        ends = int(np.argmax(some)), len(some) - 1 - int(np.argmax(some[::-1]))
        top = float(max(exponents[end] for end in ends))
        exponents -= top
        weights = np.exp(np.minimum(exponents, 0.0, out=exponents), out=exponents)
        weights *= self.law.masses
        return losses, weights, top


@dataclass(frozen=True, slots=True)
class Window:
    """Range of the composed loss that is kept: cells start <= k < start + size of the loss less its offset.

    Attributes
    ----------
    overflow : float
        Bound of the tilted mass outside the window.
    cumulants : (float, float, float)
        K = ln E0 e^{tilt S} of the run's loss S at the tilt, K' and K''.
    """

    start: int
    size: int
    overflow: float
    cumulants: tuple[float, float, float]


def tilted_cumulants(
    laws: tuple[CountedLaw, ...], tilt: float, step: float, off_nodes: OffNodeLosses | None = None
) -> tuple[float, float, float]:
    """Return K(tilt) = ln E0 e^{tilt S} of the run's loss S, with K' and K'', one number each.

    `laws` are on the lattice of spacing `step`, and `off_nodes` has steps beside the lattice, or None.
    """
    rows = [law.log_moment(tilt, step) for law in laws]
    if off_nodes is not None:
        rows.append(off_nodes.cumulants(tilt))
    values, means, variances = zip(*rows, strict=True)
    return math.fsum(values), math.fsum(means), math.fsum(variances)


def log_moment_in_range(laws: tuple[CountedLaw, ...], tilt: float, step: float) -> float:
    """Return the log-moment ln E0 e^{tilt S} of the run's loss S, within `weight_rounding`; infinite if out of range.

    `laws` are the laws of the steps on the lattice of spacing `step`.
    """
    return math.fsum(law.log_moment_in_range(tilt, step) for law in laws)


def total_offset(laws: tuple[CountedLaw, ...]) -> float:
    """Return the offset (nats) of the composition's lattice: the sum of the offsets of `laws`, each times its count."""
    return math.fsum(counted.count * counted.law.offset for counted in laws)


def window(laws: tuple[CountedLaw, ...], tilt: float, step: float) -> Window | None:
    """Return the smallest window with a tilted mass of about e^-goal outside, and the proved bound of this mass.

    The goal is the constant `_OVERFLOW_GOAL`.

    Parameters
    ----------
    laws : tuple of CountedLaw
        Laws of the steps.
    tilt, step : float
        Tilt, and spacing of the lattice.

    Returns
    -------
    Window or None
        None if the tilted law is out of the range of doubles.
    """
    if not math.isfinite(log_moment_in_range(laws, tilt, step)):
        return None
    cumulants = tilted_cumulants(laws, tilt, step)
    unit = 1 / max(math.sqrt(max(cumulants[2], 0.0)), step)
    tails = [_Tails(laws, tilt, step, cumulants[0], side) for side in (-unit, unit)]
    (left, first), (right, second) = (tail.nearest() for tail in tails)
    if not (math.isfinite(left) and math.isfinite(right)):
        return None
    offset = total_offset(laws)
    start, end = math.floor((-left - offset) / step) - 1, math.ceil((right - offset) / step) + 1
    farthest = max(abs(tilt - first * unit), abs(tilt + second * unit))
    slack = weight_rounding(laws, farthest, step) + weight_rounding(laws, tilt, step) + 1e-9 + 1e-13 * _OVERFLOW_GOAL
    overflow = 2 * math.exp(min(-_OVERFLOW_GOAL + slack, 700.0))
    return Window(start, fast_length(max(end - start + 1, 16)), overflow, cumulants)


@dataclass(frozen=True, slots=True)
class _Tails:
    """One side of a tilted law, whose mass Chernoff's bound limits by moments at other tilts.

    `laws` are the laws of the steps on a lattice of spacing `step` (nats). `value` is the log-moment function K at the
    tilt theta. The other tilts have distances from theta in multiples of `unit`, whose sign is that of the side.
    """

    laws: tuple[CountedLaw, ...]
    tilt: float
    step: float
    value: float
    unit: float

    def nearest(self) -> tuple[float, float]:
        """Return the nearest endpoint of the window on this side, and the distance of the tilt that proves it.

        The endpoint is counted outwards. The tilted mass beyond the endpoint is at most e^-goal. The endpoint x has
        e^{K(s) - K(theta) - (s - theta) x} = e^-goal for the other tilt s, and is infinite if K(s) is out of range. As
        a function of the distance, endpoints first decrease and then increase.
        """
        best, at = self._end(_DEFAULT_DISTANCE), _DEFAULT_DISTANCE
        for direction in (-1, 1):
            while 0 <= at + direction < len(_CHERNOFF_DISTANCES):
                other = self._end(at + direction)
                if best < math.inf and not other < best:
                    break
                best, at = other, at + direction
            if at != _DEFAULT_DISTANCE:
                break
        return best, _CHERNOFF_DISTANCES[at]

    def _end(self, at: int) -> float:
        shift = self.unit * _CHERNOFF_DISTANCES[at]
        return (log_moment_in_range(self.laws, self.tilt + shift, self.step) - self.value + _OVERFLOW_GOAL) / abs(shift)


def weight_rounding(laws: tuple[CountedLaw, ...], tilt: float, step: float) -> float:
    """Return a bound of the relative rounding of all tilted weights of a run, and of e^K.

    K is the log-moment function of the run at the tilt. The rounding is a factor of the law, like its slack. `step` is
    the distance of neighbouring losses.
    """
    rounding = 0.0
    for counted in laws:
        law = counted.law
        farthest = (max(abs(law.first), abs(law.first + len(law.masses))) + 1) * step
        each = 2 * FUNCTION_ERROR + UNIT_ROUNDOFF * (40 + 6 * abs(tilt) * farthest) + running_sum_error(len(law.masses))
        rounding += 2 * counted.count * each
    return rounding


class ComposedLattice:
    """Run of lattice laws composed at one tilt theta, with sums over the law near its tilted mean.

    `center` is the lattice index nearest to the mean. `low` and `high` are the first and last index of the thresholds
    c. The tilted masses m have the sum 1, and K is the log-moment function of the run at theta. Sums are relative to
    e^{K - theta c} (for probabilities under H0) or e^{K - (theta - 1) c} (under H1, and the profile) at the threshold
    c. Each kind of sum has one absolute error.
    """

    def __init__(
        self,
        laws: tuple[CountedLaw, ...],
        theta: float,
        step: float,
        chosen: Window,
        off_nodes: OffNodeLosses | None = None,
    ) -> None:
        self.theta, self.step, self.off_nodes = theta, step, off_nodes
        between = (0.0, 0.0, 0.0) if off_nodes is None else off_nodes.cumulants(theta)
        self.value, mean, variance = map(sum, zip(chosen.cumulants, between, strict=True))
        self.deviation = math.sqrt(max(variance, 0.0))
        self._offset = total_offset(laws)
        self.center = round((mean - self._offset) / step)
        self._start, self._overflow, self.cells = chosen.start, chosen.overflow, chosen.size
        self._between = Between.of(off_nodes, theta, step)
        cells = self._between.cells
        self._masses, self._noise, self._root_noise = _composed(laws, theta, step, chosen)
        left, right = self._reaches(math.ceil(_REACH * self.deviation / step) + 2)
        self.low = max(self.center - left, chosen.start + min(cells) + 1)
        high = min(self.center + right, chosen.start + chosen.size - 1 + max(cells))
        # Laws on nodes have corners at the nodes. With losses between the nodes, thresholds may skip nodes.
        work = (high - self.low + 1) * len(cells)
        stride = 1 if off_nodes is None else -(-work // _LARGEST_SPREAD)
        self.high = high - (high - self.low) % stride
        self._grid = Thresholds((self.high - self.low) // stride + 1, stride, step)
        self.log_rounding = weight_rounding(laws, theta, step) + 8 * UNIT_ROUNDOFF * abs(self.value)
        self.blur = 0.0
        """Error bound (nats) of the losses, in addition to `shift` of the laws."""
        if off_nodes is not None:
            self.blur = off_nodes.blur + 8 * UNIT_ROUNDOFF * float(np.abs(self.thresholds[[0, -1]]).max())
            self.log_rounding += off_nodes.rounding(theta) + self.blur * (2 + abs(theta))

    def _reaches(self, default: int) -> tuple[int, int]:
        """Return the numbers of cells left and right of the center at which sums are evaluated.

        These are the default number, or more if rare jumps (large losses) lead further, until only a negligible mass is
        beyond.
        """
        at = min(max(self.center - self._start, 0), self.cells - 1)
        return _reach(self._masses[at::-1], default), _reach(self._masses[at:], default)

    @cached_property
    def thresholds(self) -> FloatArray:
        """Losses c in nats at which sums are evaluated, shape (threshold_count,)."""
        return self._offset + np.arange(self.low, self.high + 1, self._grid.stride, dtype=np.float64) * self.step

    @property
    def threshold_count(self) -> int:
        """Number of the thresholds of the loss at which sums are evaluated."""
        return (self.high - self.low) // self._grid.stride + 1

    def above(self, rate: float) -> FloatArray:
        """Return sum m e^{-rate (loss - c)} over losses above each threshold c, for rate > 0, shape (threshold_count,).

        m are the tilted masses of the run, of sum 1.
        """
        cells = self._between.cells
        first = max(self.low - max(cells), self._start)
        masses = self._masses[first - self._start :]
        sums = decayed_sums(masses, min(self.high - min(cells) + 1 - first, len(masses)), rate * self.step)
        return self._between.summed(sums, self.low - first, self._grid, rate)

    def below(self, rate: float) -> FloatArray:
        """Return sum m e^{-rate (c - loss)} over losses at or below each threshold c, for rate > 0.

        m are the tilted masses of the run, of sum 1. The shape is (threshold_count,).
        """
        between = self._between.reflected(self.step)
        last = min(self.high + max(between.cells), self._start + self.cells - 1)
        masses = self._masses[last - self._start :: -1]
        sums = decayed_sums(masses, min(last - self.low - min(between.cells) + 1, len(masses)), rate * self.step)
        return between.summed(sums, last - self.high, self._grid, rate)[::-1]

    def error(self, rate: float) -> float:
        """Return the absolute error of the sums `above` and `below` with the given rate of decay.

        It has parts from noise of the transform in every cell, wrapped mass, and omitted far cells.

        The sums add the tilted masses on one side of a threshold, each times e^{-rate d} at the distance d from it.
        """
        cells = min(1 / -math.expm1(-rate * self.step), float(self.cells))
        squares = min(1 / -math.expm1(-2 * rate * self.step), float(self.cells))
        noise = min(self._noise * cells, self._root_noise * math.sqrt(squares))
        return 1.001 * (self._overflow + noise) + _FAR_CELLS

    def sum_rounding(self, rate: float) -> float:
        """Return the relative error of the sums `above` and `below` with this rate, without noise of the transform.

        The sums add the tilted masses on one side of a threshold, each times e^{-rate d} at the distance d from it.
        """
        exponent = min(rate * self.step * self.cells, 2 * _BLOCK_EXPONENT)
        return running_sum_error(self.cells) + 4 * FUNCTION_ERROR + UNIT_ROUNDOFF * (16 + 8 * exponent)


def _reach(masses: FloatArray, default: int) -> int:
    """Return the number of lattice cells to evaluate outwards from the centre of a law.

    `masses` are the tilted masses from the centre outwards. The number is `default`, or more if a mass above `_JUMPS`
    lies beyond: then it is so large that at most about `_LITTLE` is left out.
    """
    beyond = np.cumsum(masses[:default:-1]) if len(masses) > default + 1 else masses[:0]
    if len(beyond) == 0 or not beyond[-1] > _JUMPS:
        return default
    return len(masses) - 1 - int(np.searchsorted(beyond, _LITTLE))


def decayed_sums(masses: FloatArray, read: int, decay: float) -> FloatArray:
    """Compute sum_{k >= j} masses[k] e^{-decay (k - j)} for j < `read`, shape (read,).

    Blocks are so short that no factor underflows. Cells further away than e^{-_BLOCK_EXPONENT} are omitted. With few
    cells per sum, and short blocks, each distance k - j is added for all j together, which needs no more additions.
    """
    reach = math.ceil(min(_BLOCK_EXPONENT / decay, float(len(masses))))
    if reach <= min(_MOST_DISTANCES, math.isqrt(len(masses))):
        total = np.zeros(read)
        for distance in range(reach, -1, -1):
            near = masses[distance : distance + read]
            total[: len(near)] += near * math.exp(-decay * distance)
        return total
    block = max(1, int(min(_BLOCK_EXPONENT / decay, float(read))))
    parts: list[FloatArray] = []
    for start in range(0, read, block):
        length = min(block, read - start)
        rest = masses[start:]
        if decay * len(rest) > 2 * _BLOCK_EXPONENT:
            rest = rest[: length + math.ceil(_BLOCK_EXPONENT / decay)]
        factors = np.exp(-decay * np.arange(len(rest)))
        sums = running_sums((rest * factors)[::-1])[::-1]
        parts.append(sums[:length] / factors[:length])
    return np.concatenate(parts)


_A_CALL, _A_WEIGHT = 16.0, 0.008
"""Work of the moment of a law at a tilt, and of each of its masses, in microseconds, roughly."""
_A_LINE, _A_CELL = 200.0, 0.04
"""Work of a composition at a tilt, and of each cell of each law, in microseconds."""


def _composed(
    laws: tuple[CountedLaw, ...], theta: float, step: float, chosen: Window
) -> tuple[FloatArray, float, float]:
    """Return the tilted masses of the composition over the window, and bounds of their errors.

    `laws` are the laws of the steps with their counts. Masses are multiplied by e^{theta loss}, `step` is the distance
    of losses, and `chosen` the window. The first bound is that of the error of each mass, and the second that of the
    Euclidean norm of all errors. By Parseval's identity the norm of n errors is that of their transform divided by
    sqrt(n).
    """
    n = chosen.size
    count_work(_A_LINE + _A_CELL * n * len(laws))
    error = _TRANSFORM_ERROR * (math.log2(n) + 1)
    composed = np.ones(n // 2 + 1, dtype=np.complex128)
    log_most, relative = np.zeros(n // 2 + 1), np.zeros(n // 2 + 1)
    with np.errstate(under="ignore"):
        for counted in laws:
            transform = np.fft.rfft(_wrapped(counted.law, theta, step, n))
            most = np.abs(transform) + error
            log_most += counted.count * np.log(most)
            relative += (counted.count * error) / most
            composed *= _power(transform, counted.count)
        # |F^N - computed^N| is at most N error (|F| + error)^{N-1}, and at most the sum of both powers. Each of the
        # N - 1 products is rounded too.
        products = 4 * UNIT_ROUNDOFF * math.fsum(counted.count for counted in laws)
        bound = np.exp(np.minimum(log_most, 700.0)) * (np.minimum(1.001 * relative, 2.0) + 2 * products) + _UNDERFLOW
    # All frequencies but the first (and the middle one of an even length) count twice.
    size = np.abs(composed)
    noise = 2 * (float(bound.sum()) + error * float(size.sum())) / n
    root_noise = math.sqrt(2 * float((bound**2).sum()) / n) + error * math.sqrt(2 * float((size**2).sum()) / n)
    masses = np.fft.irfft(composed, n)
    return np.roll(masses, -(chosen.start % n)), noise, root_noise


def _power(values: ComplexArray, count: int) -> ComplexArray:
    """Return `values`^`count` by repeated squaring, elementwise.

    All roundings together equal those of count - 1 products, 3 units of rounding each.
    """
    found: ComplexArray | None = None
    while True:
        if count & 1:
            found = values if found is None else found * values
        count >>= 1
        if count == 0:
            return np.ones_like(values) if found is None else found
        values = values * values


def _wrapped(law: LatticeLaw, theta: float, step: float, n: int) -> FloatArray:
    """Return n masses of a law tilted by e^{theta loss}: masses with equal indices modulo n are added.

    The tilted masses have the sum 1. `step` is the spacing of the lattice.
    """
    exponents = theta * law.losses(step)
    top = float(exponents[law.masses > 0].max())
    weights = law.masses * np.exp(np.minimum(exponents - top, 0.0))
    weights /= weights.sum()
    rounds = -(-(len(weights) + n) // n)
    padded = np.zeros(rounds * n)
    offset = law.first % n
    padded[offset : offset + len(weights)] = weights
    return padded.reshape(rounds, n).sum(axis=0)
