"""Inversion contour of the sum of n losses in the core, alone or beside one jump.

The *core* of a sampled Gaussian step is the event that the step has no far loss; a *jump* is a far loss. L is the loss
of one step, and S is the sum of n losses in the core. P1 and E1 are those of the hypothesis H1 with the record, and
E1[X; A] is E1 of X on the event A. Let M(z) = E1[e^{zL}; core] and psi(x) = E1[(1 - e^{x - S})_+; core], the profile of
the sum. Poisson's formula holds for every k > 0 and h > 0, with T = 2 pi/h:

    (h/2 pi) sum_j M(k + ijh)^n e^{-(k + ijh) x}/((k + ijh) (k + 1 + ijh)) = sum_m e^{k m T} psi(x + m T).

The terms m != 0 (*aliases*) have Chernoff bounds psi(x) <= e^{-sx} M(s)^n at tilts s > k on the right, and 0 < s < k on
the left. The sum over j ends at a height. Beyond this height, |M(k + it)| is bounded at some heights. Between them the
Lipschitz bound |d/dt (M(k + it) e^{-itl})| <= E1[e^{kL} |L - l|; core] holds for any real l. From some height on the
bound V/t serves, with a constant V.

Let c be the epsilon of the profile. A jump with the loss L contributes psi(c - L). For jumps in a range, all terms
above are integrated over the law of the jump: e^{-zc} becomes e^{-zc} B(z) with B(z) = E1[e^{zL}; range]. For larger
jumps, with x = c - L <= x1,

    psi(x) = P1(core)^n - e^x P0(core)^n + E1[(e^{x - S} - 1)_+; core],

where the last term is at most e^{x1} E1[e^{-S}; S < x1, core] <= e^{(1 + s) x1} M(-1 - s)^n for every s >= 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.composition.inversion.rare_jumps.core_law import CoreLaw
from service.privacy.numerics.arrays import ComplexArray, FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

_TILTS = 240
_PERIODS = (0.7, 1.0, 1.5, 2.5, 4.0, 7.0)
"""Periods T that are tried, relative to epsilon."""

_NEGLIGIBLE = -30.0
"""ln of omitted terms relative to the largest one that steers the period and the height."""

_MOST_NODES = 2_000
_MOST_HEIGHTS = 400

Bounds = tuple[float, float]
_UNKNOWN: Bounds = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Jumps:
    """Far losses L (jumps) of one step in a range, and the larger jumps.

    Attributes
    ----------
    law : CoreLaw
        Law of the loss under H1 on the event that it is in the range; its total mass is the probability of that event.
    mass : float
        Upper bound of that probability.
    farther : tuple of tuple
        Upper bounds of the mass of larger jumps under H1, and under H0.
    """

    law: CoreLaw
    mass: float
    farther: tuple[Bounds, Bounds]


class CoreContour:
    """Contour Re z = k of the sum S of n = `count` losses without far jumps (losses in the *core*), under H1.

    M(s) = E1[e^{sL}; core] is the moment of one loss L at a real *tilt* s. psi(x) = E1[(1 - e^{x - S})_+; core] is the
    profile of the sum. Alias terms are the errors of the trapezoid sum along the contour.
    """

    def __init__(self, core: CoreLaw, count: int, epsilon: float, largest_tilt: float) -> None:
        """Bound the moments of one loss at real tilts up to `largest_tilt`.

        `core` is the law of one loss in the core, and `count` the number n of losses. `epsilon` is the threshold of the
        profile in nats. A tilt is a real number s in the moment E1[e^{sL}; core] of one loss L. The core is the event
        that the step has no large loss.
        """
        self._core, self._count, self._epsilon = core, count, epsilon
        self._tilts = largest_tilt * np.geomspace(1e-4, 1.0, _TILTS)
        with np.errstate(all="ignore"):
            self._logs = self._log_moments(self._tilts)

    def _log_moments(self, tilts: FloatArray) -> FloatArray:
        """Return upper bounds of ln M(s)^n at the tilts s, of their shape; infinite where none is known.

        M(s) = E1[e^{sL}; core] is the moment of the loss L of one of n steps, on the event that the step has no large
        loss.
        """
        logs = self._count * np.log1p(self._core.growth(tilts))
        return np.where(np.isnan(logs), np.inf, logs + 1e-12 * (1 + np.abs(logs)))

    @np.errstate(all="ignore")
    def log_profile(self) -> Bounds:
        """Return `(lower, upper)`, bounds of ln psi(epsilon); infinite where none is known.

        psi(x) = E1[(1 - e^{x - S})_+; core] is the profile of the sum S of the losses of n steps, none of which is
        large.
        """
        exponents = self._logs - self._tilts * self._epsilon
        at = int(exponents.argmin())
        lower, upper, log_scale = self._integral(float(self._tilts[at]), exponents, None)
        return (
            log_scale + math.log(lower) if lower > 0 else -math.inf,
            log_scale + math.log(upper) if upper > 0 else math.inf,
        )

    @np.errstate(all="ignore")
    def log_with_jump(self, jumps: Jumps, least: float, below: FloatArray) -> Bounds:
        """Return `(lower, upper)`, bounds of ln E1[psi(epsilon - L); jump], infinite where none is known.

        L is the loss of one further step with a jump, and psi is the profile of the other losses (`CoreContour`).

        Parameters
        ----------
        jumps : Jumps
            Law of the jump.
        least : float
            epsilon less the largest loss of the range of jumps, in nats.
        below : FloatArray
            Tilts -1 - s, s >= 0, that are tried for jumps beyond the range.
        """
        beside = np.log(jumps.law.growth(self._tilts) + jumps.mass)
        exponents = self._logs - self._tilts * self._epsilon + np.where(np.isnan(beside), np.inf, beside)
        lower, upper, log_scale = self._integral(float(self._tilts[exponents.argmin()]), exponents, jumps.law)
        scale = math.exp(log_scale)
        present, absent = jumps.farther
        outside = self._core.log_missing(), self._core.log_missing_absent()
        missing, missing_absent = (self._count * math.exp(np.logaddexp(*logs)) for logs in outside)
        grown = math.exp(self._epsilon)
        slack = 1e-12 * (present[1] + grown * absent[1])
        rest = float(np.nanmin(self._log_moments(below) - below * least))
        low = present[0] * (1 - missing) - grown * absent[1] - slack
        high = present[1] * (1 + math.exp(min(rest, 700.0))) - grown * absent[0] * (1 - missing_absent) + slack
        lower, upper = lower * scale + max(low, 0.0), upper * scale + high
        return math.log(lower) if lower > 0 else -math.inf, math.log(upper) if upper > 0 else math.inf

    def _integral(self, tilt: float, exponents: FloatArray, jump: CoreLaw | None) -> tuple[float, float, float]:
        """Return `(lower, upper, log_scale)`: the inversion integral lies in e^log_scale [lower, upper].

        The integral runs along Re z = `tilt` and gives psi(epsilon), the profile of the sum of n losses without large
        ones. With a `jump` (the law of one large loss, or None) it gives the mean of the profile over the jump. M is
        the moment of one loss. `exponents` has ln of upper bounds of e^{-s epsilon} M(s)^n at all tilts s, times the
        moment of the jump. The bounds are infinite where none is known.
        """
        unknown = -math.inf, math.inf, 0.0
        moment = 1 + float(self._core.growth(np.array([tilt]))[0])
        if not (self._tilts[0] < tilt < self._tilts[-1] and math.isfinite(moment)):
            return unknown
        scale = float(np.interp(tilt, self._tilts, exponents))
        period, log_alias = self._period(tilt, exponents - scale)
        spacing = 2 * math.pi / period
        deviation = math.sqrt(self._count) * self._core.spread(tilt) / moment
        nodes = math.ceil(1.3 * math.sqrt(-2 * _NEGLIGIBLE) / deviation / spacing) if deviation > 0 else _MOST_NODES + 1
        if nodes > _MOST_NODES or not math.isfinite(log_alias):
            return unknown
        heights: FloatArray = spacing * np.arange(nodes + 1, dtype=np.float64)
        values, errors = self._core.transform(tilt, heights)
        terms, uncertain = self._terms(values, errors, heights)
        log_value = self._count * math.log(values[0].real) - tilt * self._epsilon
        beside, beside_error = np.ones_like(values), np.zeros_like(heights)
        if jump is not None:
            beside, beside_error = jump.transform(tilt, heights)
            largest = abs(complex(beside[0])) + float(beside_error[0])
            beside, beside_error, log_value = beside / largest, beside_error / largest, log_value + math.log(largest)
        z = tilt + 1j * heights
        kernel = spacing / math.pi / (z * (z + 1))
        kernel[0] *= 0.5
        size = np.abs(terms * kernel)
        grown = np.where(uncertain < 600, np.expm1(np.minimum(uncertain, 600.0)), np.inf)
        error = float((size * (grown * (np.abs(beside) + beside_error) + beside_error)).sum())
        error += float(size.sum()) * (nodes + 60) * UNIT_ROUNDOFF
        error += self._rest(tilt, float(heights[-1]), values[0].real - float(errors[0]), spacing)
        error += math.exp(min(log_alias + scale - log_value, 700.0))
        terms = terms * beside * kernel
        total = float(terms.real.sum())
        slack = 1e-14 * (1 + abs(log_value) + self._count)
        if not (math.isfinite(total) and math.isfinite(error)):
            return unknown
        error += slack * (abs(total) + error)
        return total - error, total + error, log_value

    def _period(self, tilt: float, exponents: FloatArray) -> tuple[float, float]:
        """Return a period T = 2 pi/h of the trapezoid sum with step h, and ln of an upper bound of its alias terms.

        The bound is the best Chernoff bound at the tilts on either side of `tilt`, whose logarithms are `exponents`.
        Alias terms are the errors of the trapezoid sum along the inversion contour, and tilts are real exponents of the
        moments.
        """
        left, right = self._tilts < tilt * (1 - 1e-9), self._tilts > tilt * (1 + 1e-9)
        log_alias, period = math.inf, math.inf
        for share in _PERIODS:
            period = share * self._epsilon
            turns = -np.abs(self._tilts - tilt) * period
            aliases = exponents + turns - np.log(-np.expm1(turns))
            log_alias = float(np.logaddexp(np.nanmin(aliases[left]), np.nanmin(aliases[right])))
            if log_alias < _NEGLIGIBLE:
                break
        return period, log_alias

    def _terms(self, values: ComplexArray, errors: FloatArray, heights: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Return (M(k + it)/M(k))^n e^{-it epsilon} at the heights t, and absolute error bounds of their logarithms.

        `values` are M(k + it) = E1[e^{(k + it) L}; core] of the loss L of one of n steps, with the absolute error
        bounds `errors`. The core is the event that L is not large. All arrays have one shape, and the first height is
        0.
        """
        moved = np.log(values / values[0].real)
        relative = errors / np.abs(values)
        uncertain = self._count * (-np.log1p(-np.minimum(relative, 0.5)) + relative[0] * 1.01 + 16 * UNIT_ROUNDOFF)
        uncertain = uncertain + 8 * UNIT_ROUNDOFF * (self._count * np.abs(moved) + heights * self._epsilon)
        uncertain = np.where(relative < 0.5, uncertain, np.inf)
        return np.exp(self._count * moved - 1j * heights * self._epsilon), uncertain

    def _rest(self, tilt: float, height: float, least: float, spacing: float) -> float:
        """Bound the terms of the trapezoid sum beyond a height from above, relative to M(k)^n with the `tilt` k.

        M is the moment-generating function of one of n losses, `least` is a lower bound of M(k), and h = `spacing` is
        the step of the sum. A term at t is at most (h/pi) (|M(k + it)|/M(k))^n/t^2, and a sum of h/t^2 beyond t at most
        (1 + h/t)/t.
        """
        variation = math.exp(self._core.log_variation(tilt)) / least
        change = self._core.spread(tilt) / least
        last, small = max(math.e * variation, height), math.exp(_NEGLIGIBLE / self._count)
        at = height
        for _ in range(_MOST_HEIGHTS):
            if at >= last:
                # Up to `last` the modulus is at most `small`, and beyond it at most V/t <= 1/e.
                share = (1 + spacing / height) / math.pi
                return (math.exp(_NEGLIGIBLE) / height + math.exp(-self._count) / last) * share * (1 + 1e-9)
            values, errors = self._core.transform(tilt, np.array([at]))
            room = small - (abs(complex(values[0])) + float(errors[0])) / least
            if not room > 0:
                return math.inf
            at += room / change
        return math.inf
