"""Moments of one sampled Gaussian step at the nodes of deformed panels, with every error bounded.

M(z) = E0 e^{zL} is the moment-generating function of the loss L of the step at a complex node z of an inversion
contour. v is the outcome, g its normal density, and p the sampling rate. M(z) - 1 = int_G g b (e^{zL} - 1) dv is a
trapezoid sum over a path G, with b = 1 unless steps are mirrored. The sums use the platform's long doubles where they
are longer than doubles, because the plateau of the integrand |F| of the inversion near the real axis cancels down to
the evaluated tail. Where thresholds are near the least loss ln(1 - p), M has a factor (1 - p)^z. There ln(1 - p) is
subtracted from L, and M stands for the moment of the difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.privacy.composition.inversion.deformed.majorant import Strips
from service.privacy.composition.inversion.deformed.paths import Paths
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.arrays import FloatArray, joined

Float = type[np.float64] | type[np.longdouble]
RealArray = NDArray[np.floating[Any]]

_CHUNK = 200_000
"""Number of terms that are evaluated together, which bounds the memory."""

_OF_RATE = 11.0
"""Bound, in u, of the error of ln(p/(1 - p)) and of ln p for a rate p <= 0.9 that is within u of itself."""


def roundoff(dtype: Float) -> float:
    """Return the unit roundoff of `dtype`: 2^-53 for doubles, or 2^-64 for long doubles of x86-64."""
    return float(np.finfo(dtype).eps) / 2


class Moments(NamedTuple):
    """Real and imaginary parts of M(z) - 1 at n nodes z, and a bound of the absolute error of M, each of shape (n,).

    M is the moment-generating function of the loss of one step.
    """

    real: RealArray
    imag: RealArray
    error: FloatArray


def spacing_for(strips: Strips, panel: int, log_scale: FloatArray, log_goal: float) -> tuple[float, float]:
    """Return a step h of the trapezoid sum on one panel's path, and ln of the bound of its absolute error on the panel.

    The error bound holds at every z of the panel. The error follows from the majorants B_{G +- i alpha}(z), the
    integrals of the modulus along the path G moved by +- i alpha (`Strips`). They are log-convex: their values at both
    ends of the panel (the first two points of the strips) bound them in between. The third point is z = 0, for the 1
    that is subtracted from the moment. `log_scale` (3,) is ln of the factors of the three values. `log_goal` is ln of
    the error aimed at. The result is (0, inf) where no step serves.
    """
    sides = np.stack([strips.above[panel], strips.below[panel]]) + log_scale  # (2, A, 3)
    log_growth = np.logaddexp.reduce(np.concatenate([sides[..., :2].max(axis=-1), sides[..., 2]]), axis=0)
    turns = log_growth - log_goal + 0.1
    spacings = np.where(np.isfinite(turns), 2 * math.pi * strips.shift[panel] / np.maximum(turns, 1.0), 0.0)
    best = int(spacings.argmax())
    spacing = float(spacings[best])
    if spacing <= 0:
        return 0.0, math.inf
    kernel = 2 * math.pi * float(strips.shift[panel, best]) / spacing
    tails = strips.tail[panel] + log_scale
    tail = np.logaddexp(tails[:2].max(), tails[2])
    return spacing, float(np.logaddexp(log_growth[best] - kernel - math.log(-math.expm1(-kernel)), tail))


def moments(nodes: PathNodes, real: RealArray, imag: RealArray) -> Moments:
    """Return M(z) - 1 at the nodes z = `real` + i `imag`, shape (n,), by trapezoid sums over one path.

    M is the moment-generating function of the loss of one step. The error bounds cover rounding, and moving z by 8 u
    |z| with the unit roundoff u, but not the error of the trapezoid rule.
    """
    chunks = (slice(first, first + nodes.batch) for first in range(0, len(real), nodes.batch))
    return joined([_chunk(nodes, real[chunk], imag[chunk]) for chunk in chunks])


def _chunk(nodes: PathNodes, real: RealArray, imag: RealArray) -> Moments:
    x, t = real[:, None], imag[:, None]
    grown = np.expm1(x * nodes.log_modulus - t * nodes.argument)
    phase = (x * nodes.argument + t * nodes.log_modulus) / 2
    sine, cosine = np.sin(phase), np.cos(phase)
    twice = 2 * sine * sine
    first = grown * (1 - twice) - twice
    size = grown + 1
    second = size * (2 * sine * cosine)
    total_real = (first * nodes.weight_real - second * nodes.weight_imag).sum(axis=-1)
    total_imag = (first * nodes.weight_imag + second * nodes.weight_real).sum(axis=-1)
    change = np.hypot(first.astype(np.float64), second.astype(np.float64))
    modulus = np.hypot(real.astype(np.float64), imag.astype(np.float64))
    # 2 sin^2(phase) <= min(2, 5 |e^{zL} - 1|^2) is rounded by itself, with 44 u.
    alone = 44 * nodes.unit * np.minimum(2.0, 5 * change**2) * (1 + change)
    error = modulus * (size.astype(np.float64) @ nodes.exponent_error)
    error = error + change @ nodes.weight_error + alone @ nodes.weight
    return Moments(total_real, total_imag, error * 1.001)


class PathNodes:
    """Trapezoid nodes on one path for the moments M(z) - 1 of one step, in numbers of one type.

    M(z) = E0 e^{zL}, L is the loss of the step at the complex outcome v on the path, and tau is the real parameter of
    the path. The object holds everything that does not depend on z.
    """

    def __init__(
        self, step: SampledStep, path: Paths, dtype: Float, tau: RealArray, spacing: float, *, from_least: bool
    ) -> None:
        """Evaluate the nodes `tau`, which are exact numbers of the type `dtype`, at a distance `spacing`.

        `from_least` subtracts the least loss ln(1 - p) from the loss, where p is the sampling rate of the step. `path`
        is the path in the complex plane of the step's outcome.
        """
        eta, slope, offset = (dtype(float(part[0, 0])) for part in (path.eta, path.slope, path.offset))
        ratio = _Ratio.of(step, dtype)
        x = 2 * (tau - offset + ratio.log_odds)
        falling = np.exp(-np.abs(x))
        height = eta + slope / 2 * (np.maximum(x, 0) + np.log1p(falling))
        rise = slope * np.where(x > 0, 1, falling) / (1 + falling)
        sigma = dtype(step.sigma)
        distance = tau if step.mirrored else tau + 1 / (2 * sigma * sigma)
        log_size, turn = (
            sigma * sigma / 2 * (height - distance) * (height + distance),
            -sigma * sigma * distance * height,
        )
        known = [ratio.along(tau, height, from_least=from_least)]
        self.log_modulus, self.argument = known[0].modulus, known[0].argument
        if step.mirrored:
            known.append(ratio.along(-tau, -height, from_least=False))
            self.log_modulus, self.argument = self.log_modulus - known[1].modulus, self.argument - known[1].argument
            log_size, turn = log_size + known[1].modulus, turn + known[1].argument
        size = sigma / np.sqrt(2 * dtype(np.pi)) * dtype(spacing) * np.exp(log_size)
        cosine, sine = size * np.cos(turn), size * np.sin(turn)
        self.weight_real, self.weight_imag = cosine - sine * rise, cosine * rise + sine
        self.weight = np.hypot(self.weight_real, self.weight_imag).astype(np.float64) * (1 + 1e-9)
        self.batch, self.unit = max(1, _CHUNK // len(tau)), roundoff(dtype)
        far = np.abs(tau).astype(np.float64) + abs(float(offset)) + ratio.size
        self._set_errors(step, known, np.abs(distance).astype(np.float64), height, rise.astype(np.float64), far)

    def _set_errors(
        self,
        step: SampledStep,
        known: list[_LogValues],
        distance: FloatArray,
        long_height: RealArray,
        rise: FloatArray,
        far: FloatArray,
    ) -> None:
        """Set weights of the rounding errors: `exponent_error` for |z e^{zL}|, and `weight_error` for |e^{zL} - 1|.

        L is the loss at a node v on the path of the trapezoid sum, and z a point of the inversion contour. `known` has
        the logarithms that make up L, `distance` is the distance of Re v from the mean, and `long_height` is Im v. The
        slope of Im v in the parameter of the path is `rise`, and `far` bounds the terms of that argument of the sloping
        piece (ramp) whose half rounds Im v. So the error of Im v is at most u (24 |Im v| + 12 rise far), with the unit
        roundoff u.
        """
        unit, height = self.unit, long_height.astype(np.float64)
        steep = step.sigma**2 * (distance + height)
        moved = unit * (24 * height + 12 * rise * far)
        errors = [one.error + 16 * unit * one.size + one.responsibility * moved for one in known]
        self.exponent_error = self.weight * sum(errors)
        density = unit * (20 * steep * (distance + height) + 4 * distance) + steep * moved + sum(errors[1:])
        # Sums have 64 u, and the exponentials and phases of both factors have 70 u.
        self.weight_error = self.weight * (144 * unit + density + unit * rise * (12 + 24 * far))


@dataclass(frozen=True, slots=True)
class _LogValues:
    """Values of ln a at n complex outcomes v, for the mixture a(v) = 1 - p + p e^{v + offset} with the sampling rate p.

    Attributes
    ----------
    modulus, argument : (n,)
        ln|a| and arg a.
    size : (n,)
        |ln a|.
    error : (n,)
        Upper bound of the absolute error of ln a for exact v.
    responsibility : (n,)
        Upper bound of |d ln a/dv|.
    """

    modulus: RealArray
    argument: RealArray
    size: FloatArray
    error: FloatArray
    responsibility: FloatArray


@dataclass(frozen=True, slots=True)
class _Ratio:
    """Function a(v) = 1 - p + p e^{v + offset} of complex outcomes v in numbers of one type; p is the sampling rate.

    `size` is |ln(p/(1 - p))| + |offset|. `of_rate` is the error of ln(p/(1 - p)) and of ln p in units of roundoff, as p
    is rounded. `log_odds` is ln(p/(1 - p)) + offset, and `dtype` the type of the numbers.
    """

    dtype: Float
    rate: np.floating[Any]
    offset: np.floating[Any]
    log_odds: np.floating[Any]
    size: float
    of_rate: float

    @staticmethod
    def of(step: SampledStep, dtype: Float) -> _Ratio:
        rate, sigma = dtype(step.rate) + dtype(step.rest), dtype(step.sigma)
        offset = -1 / (2 * sigma * sigma) if step.mirrored else dtype(0)
        plain = np.log(rate) - np.log1p(-rate)
        of_rate = _OF_RATE if step.rest else 0.0
        return _Ratio(dtype, rate, offset, plain + offset, abs(float(plain)) + abs(float(offset)), of_rate)

    def along(self, real: RealArray, imag: RealArray, *, from_least: bool) -> _LogValues:
        """Return ln a at v = `real` + i `imag`, |`imag`| < pi, with error bounds, all of one shape.

        a(v) = 1 - p + p e^{v + offset} with the sampling rate p. The logarithm is computed from p (e^{v + offset} - 1),
        or right of its zeros from e^-u with u = v + ln(p/(1 - p)) + offset. `from_least` subtracts ln(1 - p).
        """
        dtype, rate, unit = self.dtype, self.rate, roundoff(self.dtype)
        u = real + self.log_odds
        right = u > 0
        near = np.where(right, 0, real + self.offset)
        grown, sine = np.expm1(near), np.sin(imag / 2)
        small_real = rate * (grown * (1 - 2 * sine * sine) - 2 * sine * sine)
        small_imag = rate * (grown + 1) * np.sin(imag)
        if from_least:
            lifted = np.exp(np.where(right, 0, u))
            small_real, small_imag = lifted * np.cos(imag), lifted * np.sin(imag)
        shrunk = np.exp(-np.where(right, u, 0))
        q_real = np.where(right, shrunk * np.cos(imag), small_real)
        q_imag = np.where(right, -shrunk * np.sin(imag), small_imag)
        square = q_real * q_real + q_imag * q_imag
        log_modulus = np.log1p(2 * q_real + square) / 2
        argument = np.arctan2(q_imag, 1 + q_real)
        base = dtype(0) if from_least else np.log1p(-rate)
        log_modulus = np.where(right, base + u + log_modulus, log_modulus)
        argument = np.where(right, imag + argument, argument)
        size = np.hypot(log_modulus, argument).astype(np.float64)
        length = np.sqrt(square.astype(np.float64))
        modulus = np.hypot((1 + q_real).astype(np.float64), q_imag.astype(np.float64))
        # |d ln a/dv| = p |e^v|/|a|, with |a| or |a|/(1 - p) = |1 + q| on the left; 1/|1 + q| on the right.
        share = np.exp(np.minimum(u, 0).astype(np.float64)) * (1.0 if from_least else 1 - float(rate))
        responsibility = np.where(right, 1.0, share) / modulus * (1 + 1e-9)
        # The error of q: 28 u of the exponential and its phase, and that of u; or 44 u of each part of p (e^v - 1).
        far = np.abs(real).astype(np.float64) + 10 * self.size + 1
        through_u = 28 + 2 * far
        through_v = 44 + 88 * np.divide(
            (float(rate) * sine * sine * (2 + np.abs(grown))).astype(np.float64), length, where=length > 0, out=far * 0
        )
        relative = (through_u if from_least else np.where(right, through_u, through_v)) + self.of_rate
        error = unit * length * (relative / modulus + 6 * (2 + length) / modulus**2)
        of_u = 8 * np.abs(imag).astype(np.float64) + 8 * far + self.of_rate
        error += 16 * unit * size + np.where(right, unit * of_u, 0.0)
        if self.offset != 0:  # the offset and the sum with it are rounded
            error += unit * responsibility * 8 * (np.abs(real).astype(np.float64) + self.size)
        return _LogValues(log_modulus, argument, size, error, responsibility)
