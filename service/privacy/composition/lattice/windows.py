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

_NEGLIGIBLE = -120.0
"""ln of an upper bound of products of transforms that are replaced by 0. Results have errors above 1e-20."""

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
        sums = self._tilted_sums(tilt, step)
        total, mean = sums.total, sums.mean
        away = sums.losses - mean
        # Each row has the sums of weights, and of weights times distances and squared distances from its loss.
        variance = (
            float(sums.scales @ (away * (away * sums.rows[:, 0] + 2 * sums.rows[:, 1]) + sums.rows[:, 2])) / total
        )
        return self.count * (sums.top + math.log(total)), self.count * mean, self.count * variance

    def log_moment_in_range(self, tilt: float, step: float) -> float:
        """Return the log-moment ln E0 e^{tilt S} of the loss S of all these steps; infinite for weights out of range.

        `step` is the spacing of the lattice.
        """
        sums = self._tilted_sums(tilt, step)
        return self.count * (sums.top + math.log(sums.total)) if sums.total >= _LEAST_WEIGHT else math.inf

    def _tilted_sums(self, tilt: float, step: float) -> _TiltedSums:
        """Return sums over the losses of one step, weighted by their masses times e^{tilt loss - top}.

        top is the largest exponent tilt * loss over all losses with mass. `step` is the spacing of the lattice. Rows of
        about sqrt(n) of the n masses have one sum each: e^{tilt loss - top} is a factor of the row, times the same
        factors in all rows. Both are at most 1, so that only negligible weights underflow.
        """
        count_work(_A_CALL + _A_WEIGHT * len(self.law.masses))
        law, (start, last) = self.law, self.law.support
        masses = law.masses[start : last + 1]
        width = max(math.isqrt(len(masses)), 1)
        count = -(-len(masses) // width)
        # The last row ends with the last loss. For tilt >= 0 each row is relative to its last loss, else to its first.
        ends = np.minimum(np.arange(1, count + 1) * width, len(masses))
        whole = len(masses) // width
        rows = np.zeros((count, 3))
        distances = np.arange(1 - width, 1) if tilt >= 0 else np.arange(width)
        nats: FloatArray = step * distances.astype(np.float64)
        weights = np.exp(np.minimum(tilt * nats, 0.0))
        within = np.stack([weights, weights * nats, weights * nats * nats], axis=1)
        rows[:whole] = masses[: whole * width].reshape(whole, width) @ within
        if count > whole:
            rest = masses[whole * width :]
            rows[whole] = rest @ (within[-len(rest) :] if tilt >= 0 else within[: len(rest)])
        first = law.first + start
        at = first + ends - 1 if tilt >= 0 else first + np.arange(count) * width
        losses: FloatArray = law.offset + at.astype(np.float64) * step
        exponents = tilt * losses
        top = float(exponents[-1] if tilt >= 0 else exponents[0])
        return _TiltedSums(top, losses, np.exp(np.minimum(exponents - top, 0.0)), rows)


@dataclass(frozen=True, slots=True)
class _TiltedSums:
    """Sums over the losses of one step, weighted by their masses times e^{tilt loss - top}.

    Attributes
    ----------
    top : float
        Largest exponent tilt * loss over all losses with mass.
    losses, scales : array, shape (rows,)
        Loss to which each row is relative, and the factor of its sums.
    rows : array, shape (rows, 3)
        Sums of the weights of each row, and of the weights times distances and squared distances from its loss.
    """

    top: float
    losses: FloatArray
    scales: FloatArray
    rows: FloatArray

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self.scales @ self.rows[:, 0])

    @property
    def mean(self) -> float:
        """Mean of the losses with these weights, nats."""
        return float(self.scales @ (self.losses * self.rows[:, 0] + self.rows[:, 1])) / self.total


@dataclass(frozen=True, slots=True)
class Window:
    """Range of the composed loss that is kept: cells start <= k < start + size of the loss less its offset.

    Attributes
    ----------
    overflow : float
        Upper bound of the tilted mass outside the window.
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

    `laws` are on the lattice of spacing `step`, and `off_nodes` has the steps with losses between the nodes, or None.
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

        The distance is in multiples of |`unit`|, the spacing of the tilts that are tried. The endpoint is counted
        outwards in nats, and the tilted mass beyond it is at most e^-goal. For the other tilt s the endpoint x has
        e^{K(s) - K(theta) - (s - theta) x} = e^-goal. The endpoint is infinite if K(s) is out of range. As a function
        of the distance, endpoints first decrease and then increase.
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

    K is the log-moment function of the run at the tilt. The rounding is a factor of the law, like its slack. `laws` are
    the laws of the steps with their counts, and `step` is the distance of neighbouring losses.
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
        # Rare jumps (large losses) may lead further than the default, until only a negligible mass is beyond.
        default = math.ceil(_REACH * self.deviation / step) + 2
        at = min(max(self.center - self._start, 0), self.cells - 1)
        left, right = _reach(self._masses[at::-1], default), _reach(self._masses[at:], default)
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
        """Return a bound of the absolute error of the sums `above` and `below` with the given rate of decay.

        It has parts from noise of the transform in every cell, mass outside of the window, and omitted far cells.

        The sums add the tilted masses on one side of a threshold, each times e^{-rate d} at the distance d from it.
        """
        cells = min(1 / -math.expm1(-rate * self.step), float(self.cells))
        squares = min(1 / -math.expm1(-2 * rate * self.step), float(self.cells))
        noise = min(self._noise * cells, self._root_noise * math.sqrt(squares))
        return 1.001 * (self._overflow + noise) + _FAR_CELLS

    def sum_rounding(self, rate: float) -> float:
        """Return a bound of the relative error of the sums `above` and `below`, without noise of the transform.

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

    Blocks are so short that no factor underflows. Each block adds the sum of all later blocks, which is known before.
    With few cells per sum, and short blocks, each distance k - j is added for all j together, which needs no more
    additions. Terms with a factor below e^{-_BLOCK_EXPONENT} are omitted then.
    """
    reach = math.ceil(min(_BLOCK_EXPONENT / decay, float(len(masses))))
    if reach <= min(_MOST_DISTANCES, math.isqrt(len(masses))):
        total = np.zeros(read)
        for distance in range(reach, -1, -1):
            near = masses[distance : distance + read]
            total[: len(near)] += near * math.exp(-decay * distance)
        return total
    block = max(1, int(min(_BLOCK_EXPONENT / decay, float(read))))
    factors = np.exp(-decay * np.arange(block + 1))
    found = np.empty(read)
    beyond = _decayed_sum(masses[read:], decay)
    for stop in range(read, 0, -block):
        start = max(stop - block, 0)
        length = stop - start
        sums = running_sums((masses[start:stop] * factors[:length])[::-1])[::-1]
        sums /= factors[:length]
        sums += beyond * factors[length:0:-1]
        found[start:stop], beyond = sums, float(sums[0])
    return found


def _decayed_sum(masses: FloatArray, decay: float) -> float:
    """Return sum_k masses[k] e^{-decay k}, in rows of about sqrt(n) masses. Factors below e^-600 count as 0."""
    masses = masses[: math.ceil(min(2 * _BLOCK_EXPONENT / decay, float(len(masses))))]
    width = max(math.isqrt(len(masses)), 1)
    whole = len(masses) // width
    within = np.exp(-decay * np.arange(width))
    rows = masses[: whole * width].reshape(whole, width) @ within
    rest = masses[whole * width :]
    total = float(rows @ np.exp(-decay * width * np.arange(whole)))
    return total + float(rest @ within[: len(rest)]) * math.exp(-decay * width * whole)


_A_CALL, _A_WEIGHT = 16.0, 0.008
"""Work of the moment of a law at a tilt, and of each of its masses, in microseconds, roughly."""
_A_LINE, _A_CELL = 200.0, 0.04
"""Work of a composition at a tilt, and of each cell of each law, in microseconds."""


def _composed(
    laws: tuple[CountedLaw, ...], theta: float, step: float, chosen: Window
) -> tuple[FloatArray, float, float]:
    """Return the tilted masses of the composition over the window, and bounds of their absolute errors.

    `laws` are the laws of the steps with their counts. Masses are multiplied by e^{theta loss}, `step` is the distance
    of losses, and `chosen` the window. The first bound is that of the error of each mass, and the second that of the
    Euclidean norm of all errors. By Parseval's identity the norm of n errors is that of their transform divided by
    sqrt(n).
    """
    n = chosen.size
    count_work(_A_LINE + _A_CELL * n * len(laws))
    error = _TRANSFORM_ERROR * (math.log2(n) + 1)
    log_most, transforms = np.zeros(n // 2 + 1), list[ComplexArray]()
    with np.errstate(under="ignore"):
        for counted in laws:
            transform = np.fft.rfft(_wrapped(counted.law, theta, step, n))
            log_most += counted.count * np.log(_sizes(transform) + error)
            transforms.append(transform)
        # Most frequencies of a run of many steps have negligible products, which are replaced by 0.
        some = np.flatnonzero(log_most > _NEGLIGIBLE)
        powers, relative = np.ones(len(some), dtype=np.complex128), np.zeros(len(some))
        for counted, transform in zip(laws, transforms, strict=True):
            values = transform[some]
            relative += (counted.count * error) / (_sizes(values) + error)
            powers *= _power(values, counted.count)
        # |F^N - computed^N| is at most N error (|F| + error)^{N-1}, and at most the sum of both powers. Each of the
        # N - 1 products is rounded too.
        products = 4 * UNIT_ROUNDOFF * math.fsum(counted.count for counted in laws)
        bound = np.exp(np.minimum(log_most[some], 700.0)) * (np.minimum(1.001 * relative, 2.0) + 2 * products)
    # All frequencies but the first (and the middle one of an even length) count twice.
    size, rest = _sizes(powers), len(log_most) * (math.exp(_NEGLIGIBLE) + _UNDERFLOW)
    noise = 2 * (float(bound.sum()) + rest + error * float(size.sum())) / n
    squares = float((bound**2).sum()) + rest * rest
    root_noise = math.sqrt(2 * squares / n) + error * math.sqrt(2 * float((size**2).sum()) / n)
    composed = np.zeros(n // 2 + 1, dtype=np.complex128)
    composed[some] = powers
    masses = np.fft.irfft(composed, n)
    return np.roll(masses, -(chosen.start % n)), noise, root_noise


def _sizes(values: ComplexArray) -> FloatArray:
    """Return upper bounds of the absolute values of complex numbers of at most about 1, within a few roundings.

    The result has the shape of `values`.
    """
    return np.sqrt(values.real**2 + values.imag**2) * (1 + 8 * UNIT_ROUNDOFF) + _UNDERFLOW


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
    """Return n masses of a law tilted by e^{theta loss}, shape (n,), as a cyclic convolution needs them.

    Masses whose lattice indices are equal modulo n are added. The tilted masses have the sum 1. `step` is the spacing
    of the lattice.
    """
    start, last = law.support
    exponents = theta * law.losses(step)[start : last + 1]
    exponents -= max(float(exponents[0]), float(exponents[-1]))
    weights = np.exp(np.minimum(exponents, 0.0, out=exponents), out=exponents)
    weights *= law.masses[start : last + 1]
    weights /= weights.sum()
    found, offset = np.zeros(n), (law.first + start) % n
    while len(weights):
        part = weights[: n - offset]
        found[offset : offset + len(part)] += part
        weights, offset = weights[len(part) :], 0
    return found
