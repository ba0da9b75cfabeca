"""Paths for the moments of one Poisson-sampled Gaussian step, deformed away from regions where w^z oscillates.

The notation is that of `summands/sampled_gaussian.py` in the variable v = y/sigma - 1/(2 sigma^2), with the
normal score y of the outcome, the noise multiplier sigma and the sampling rate p. Under H0 v ~ N(m, 1/sigma^2) with m =
-1/(2 sigma^2) and density g. The likelihood ratio is w = 1 - p + p e^v, and rho = p/(1 - p). M(z) = int g w^z dv over
every path G below the first zero v = -ln rho + i pi of w. With 0 <= arg w on G the modulus of w^{it} is e^{-t arg w},
so that nothing oscillates. The family of paths is

    v(tau) = tau + i (eta + (k/2) ln(1 + e^{2 (tau - off + ln rho)})),   0 <= k < 1.

`eta` serves the core of the law, and the ramp of slope k from the offset off serves its far jumps. The shift tau -> tau
+ i alpha, |alpha| < pi/4, gives the neighbouring paths G + i alpha that bound trapezoid sums over G.

Mirrored steps (`SampledStep`) have w = a/b with b(v) = a(-v), and M(z) = int g b w^z dv. Above the real line arg b <=
0, so that paths there serve w as well. The zeros of b have the abscissa ln rho' < 0, where ramps are lower than at
those of a, at -ln rho'. Here rho' = rho e^offset.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.arrays import FloatArray, taken

ComplexArray = NDArray[np.complex128]

_RAMPS = ((0.0, 0.0), (0.8, 0.5), (0.85, -1.8), (0.75, -2.5), (0.45, -5.0), (0.28, -8.5))
"""Slopes k and offsets of the ramps."""

_LARGEST_ETA = 2.6
_RATIO = 1.6
_HIGHEST_AT_ZERO = 2.75
"""Largest Im v at the abscissa of the zero of w, which must stay below pi minus the shift."""

_BELOW = np.array([-0.05, -0.2, -0.6])
"""Values of Im v, without ramps, of paths below the real line."""

LARGEST_SHIFT = 0.75
"""Largest shift of a ramp, below pi/4, so that |1 + e^{-X}| >= 1 for |Im X| <= 2 alpha."""


class Paths(NamedTuple):
    """P paths v(tau) = tau + i (eta + (k/2) ln(1 + e^{2 (tau - off + ln rho)})) in the complex plane, tau real.

    v is the outcome of a sampled Gaussian step, and rho = p/(1 - p) with its sampling rate p. w(v) is the likelihood
    ratio of the step. The arrays eta, k = `slope` and off = `offset` have the shape (P, 1). The path G + i alpha has
    tau + i alpha in place of tau.
    """

    eta: FloatArray
    slope: FloatArray
    offset: FloatArray

    def height(self, tau: FloatArray, log_odds: float) -> FloatArray:
        """Return the imaginary parts of the outcomes v on the paths at the real parameters tau, shape (P, J).

        `log_odds` is ln rho of `Paths`. P is the number of paths, and J that of parameters tau.
        """
        return self.eta + 0.5 * self.slope * np.logaddexp(0.0, 2 * (tau - self.offset + log_odds))

    def largest_shift(self) -> FloatArray:
        """Return the largest |alpha| for which no path between G and G + i alpha meets a zero of w; shape (paths, 1).

        w is the likelihood ratio of a step at its outcome v. The path G has the parameter tau, the height eta, the
        slope k and the offset off of `Paths`, and rho = p/(1 - p) for the sampling rate p. With s = tau + ln rho, |Re v
        - tau| <= k alpha, so that a path meets the abscissa of the zeros at s <= k alpha only. There |Im v| <= eta +
        alpha + (k/2) ln(1 + e^{2 (k alpha - off)}). The result keeps this bound below pi.
        """
        shift = np.where(self.slope > 0, LARGEST_SHIFT, 1.5)
        height = np.full_like(shift, np.inf)
        for _ in range(40):
            height = self.eta + shift + 0.5 * self.slope * np.logaddexp(0.0, 2 * (self.slope * shift - self.offset))
            shift = np.where(height < math.pi - 0.02, shift, 0.9 * shift)
        return np.where(height < math.pi - 0.02, shift, 0.0)


REAL_LINE = Paths(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))


def path_family(step: SampledStep) -> Paths:
    """Return all paths that are tried for the moments of a step, the real line first."""
    least = 0.1 / (math.sqrt(step.count) * max(step.sigma, 0.5))
    rises = math.ceil(math.log(_LARGEST_ETA / least) / math.log(_RATIO))
    etas = [0.0, *(_LARGEST_ETA * _RATIO ** (j - rises) for j in range(rises + 1))]
    rows = [
        (eta, slope, offset)
        for slope, offset in _RAMPS
        for eta in etas
        if eta + 0.5 * slope * math.log1p(math.exp(-2 * offset)) < _HIGHEST_AT_ZERO
    ]
    columns = np.array(rows).T[:, :, None]
    return Paths(columns[0], columns[1], columns[2])


def lower_family(family: Paths) -> Paths:
    """Return paths like those of the `family`, but below the real line, where strips around low paths reach."""
    ramps = np.unique(np.concatenate([family.slope, family.offset], axis=1), axis=0)
    slope, offset = (np.repeat(ramps[:, column], len(_BELOW))[:, None] for column in range(2))
    return Paths(np.tile(_BELOW, len(ramps))[:, None], slope, offset)


class MixtureValues(NamedTuple):
    """Values of the mixture a(v) = 1 - p + p e^{v + offset} along P paths at J nodes each, shape (P, J).

    p is the sampling rate of a step and v is its outcome. For b(v) = a(-v) the fields are functions of -v.

    Attributes
    ----------
    log : array
        ln a, continued along the path.
    responsibility, complement : array
        r = d ln a/dv, and 1 - r.
    """

    log: ComplexArray
    responsibility: ComplexArray
    complement: ComplexArray

    @staticmethod
    def at(step: SampledStep, v: ComplexArray) -> MixtureValues:
        """Return the values of the density ratio a at complex outcomes v of the step, in the shape of v.

        The values are computed from e^-u right of the zeros of a, and from e^u left of them, with u = v +
        `step.log_odds`.
        """
        u = v + step.log_odds
        right = u.real > 0
        far = np.exp(np.where(right, -u, u))
        larger = 1 / (1 + far)
        smaller = far * larger
        return MixtureValues(
            np.where(right, u, 0.0) + math.log1p(-step.rate) + log1p(far),
            np.where(right, larger, smaller),
            np.where(right, smaller, larger),
        )

    def nearby(self, move: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return upper bounds of |r| and |1 - r| within the distance `move` of each v, infinite where none is known.

        r = d ln a/dv = e^u/(1 + e^u) with u = v + ln(p/(1 - p)) + offset (`MixtureValues`). The bounds follow from |1 +
        e^u| >= |1 + e^u0| - |e^u0| (e^move - 1) for u within `move` of u0. r is the responsibility, and p the sampling
        rate. Both arrays have the shape (P, J) of P paths with J nodes each.
        """
        size = np.abs(self.responsibility)
        room = 1 - size * np.expm1(move)
        room = np.where(room > 0, room, np.nan)
        bounds = size * np.exp(move) / room, np.abs(self.complement) / room
        return np.where(np.isnan(room), np.inf, bounds[0]), np.where(np.isnan(room), np.inf, bounds[1])


class PathValues(NamedTuple):
    """Values along P paths G + i alpha at J real parameters tau, shape (P, J).

    Attributes
    ----------
    v, speed : array
        Outcomes v of the step, and dv/dtau.
    present, absent : MixtureValues
        Values of a and of b, the densities of H1 and H0 relative to the normal density. `absent` is None unless the
        steps are mirrored, because b = 1 then.
    """

    v: ComplexArray
    speed: ComplexArray
    present: MixtureValues
    absent: MixtureValues | None

    @staticmethod
    def along(step: SampledStep, paths: Paths, tau: FloatArray, shift: FloatArray) -> PathValues:
        """Return the values of a step's densities at the parameters `tau` of paths G + i alpha.

        `tau` has the shape (1, parameters), and alpha = `shift` the shape (paths, 1). Equal paths are computed once.
        """
        if len(paths.eta) > 1:
            rows = np.concatenate(
                [paths.eta, paths.slope, paths.offset, np.broadcast_to(shift, paths.eta.shape)], axis=1
            )
            rows, every = np.unique(rows, axis=0, return_inverse=True)
            if len(rows) < len(every):
                eta, slope, offset, some = (rows[:, column, None] for column in range(4))
                return taken(PathValues.along(step, Paths(eta, slope, offset), tau, some), every)
        moved = tau + 1j * shift
        x = 2 * (moved - paths.offset + step.log_odds)
        falling = np.exp(np.where(x.real > 0, -x, x))
        soft = np.where(x.real > 0, x, 0.0) + np.log1p(falling)
        rising = np.where(x.real > 0, 1.0, falling) / (1 + falling)
        v = moved + 1j * (paths.eta + 0.5 * paths.slope * soft)
        speed = (1 + 1j * paths.slope * rising).astype(np.complex128)
        absent = MixtureValues.at(step, -v) if step.mirrored else None
        return PathValues(v, speed, MixtureValues.at(step, v), absent)

    @property
    def mixtures(self) -> tuple[MixtureValues, ...]:
        """Values of a, and of b for mirrored steps: the densities of H1 and H0 relative to the normal density."""
        return (self.present,) if self.absent is None else (self.present, self.absent)

    @property
    def log_ratio(self) -> ComplexArray:
        """Logarithm ln w = ln a - ln b of the likelihood ratio, the privacy loss, shape (paths, parameters).

        phi a and phi b are the densities of H1 and H0 with the normal density phi.
        """
        return self.present.log if self.absent is None else self.present.log - self.absent.log

    @property
    def log_ratio_slope(self) -> ComplexArray:
        """Derivative d ln w/dv of the logarithm of the likelihood ratio w at the outcomes v, shape (P, J).

        P is the number of paths, and J that of parameters tau.
        """
        own = self.present.responsibility
        return own if self.absent is None else own + self.absent.responsibility

    def log_gaussian(self, step: SampledStep) -> FloatArray:
        """Return ln |g(v)| of the normal density g of the outcome v, without |dv|, shape (paths, parameters).

        `step` has the noise multiplier and the mean of the normal law.
        """
        distance = self.v - step.mean
        modulus = -0.5 * step.sigma**2 * (distance.real**2 - distance.imag**2)
        return modulus + math.log(step.sigma / math.sqrt(2 * math.pi))

    def log_density(self, step: SampledStep) -> FloatArray:
        """Return ln |g b| of the density of H0 at the outcomes v, without |dv|, shape (paths, parameters).

        g is the normal density, and b is 1 unless steps are mirrored.
        """
        plain = self.log_gaussian(step)
        return plain if self.absent is None else plain + self.absent.log.real


def log1p(q: ComplexArray) -> ComplexArray:
    """Return the principal value of ln(1 + q) for complex q.

    The error is a few units of rounding relative to |ln(1 + q)| for small q. The result has the shape of q.
    """
    square = 2 * q.real + (q.real**2 + q.imag**2)
    return 0.5 * np.log1p(square) + 1j * np.arctan2(q.imag, 1 + q.real)
