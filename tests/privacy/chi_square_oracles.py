"""Noncentral chi-square tails at 60 digits by three methods. Each takes doubles as the binary fractions they are.

The methods share nothing with the tested code: mixtures of central laws, closed forms for one and three degrees, and an
inversion integral evaluated with plain powers and exponentials.
"""

from __future__ import annotations

import math

import mpmath
from mpmath import mp, mpf

DIGITS = 60


def center(degrees: float, noncentrality: float, x: float) -> tuple[float, float]:
    """Return the saddle point of the inversion integral, and the Poisson index with the largest weight in
    the mixture.
    """
    root = math.hypot(degrees, 2 * math.sqrt(x) * math.sqrt(noncentrality))
    place = (degrees + root) / (2 * x)
    return place, noncentrality / (2 * place)


def mixture(degrees: float, noncentrality: float, x: float, lower: bool) -> mpf:
    """Return a tail of a noncentral chi-square law, as a sum over central laws with Poisson weights.

    The sum has 20 deviations and 150 terms around its largest term.
    """
    s, y, mean = mpf(degrees) / 2, mpf(x) / 2, mpf(noncentrality) / 2
    most = center(degrees, noncentrality, x)[1]
    reach = 20 * math.sqrt(most) + 150
    first, last = max(0, int(most - reach)), int(most + reach)
    if mean == 0:
        first = last = 0
    poisson, total = [mp.exp(-mean + (first * mp.log(mean) if first else 0) - mp.loggamma(first + 1))], mpf(0)
    for j in range(first + 1, last + 1):
        poisson.append(poisson[-1] * mean / j)
    if lower:
        order = s + last
        step = mp.exp(order * mp.log(y) - y - mp.loggamma(order + 1))  # P(order, y) - P(order + 1, y)
        tail = term = step
        k = 1
        while term > tail * mpf(10) ** -DIGITS:
            term *= y / (order + k)
            tail += term
            k += 1
        for j in range(last, first - 1, -1):
            total += poisson[j - first] * tail
            step *= (s + j) / y
            tail += step
        return total
    order = s + first
    step = mp.exp(order * mp.log(y) - y - mp.loggamma(order + 1))
    tail = mp.gammainc(order, y, mp.inf, regularized=True)
    for j in range(first, last + 1):
        total += poisson[j - first] * tail
        tail += step
        step *= y / (s + j + 1)
    return total


def closed_form(degrees: int, noncentrality: float, x: float, lower: bool) -> mpf:
    """Return a tail of a noncentral chi-square law with 1 or 3 degrees of freedom, from normal tails and densities."""
    a, b = mp.sqrt(mpf(x)), mp.sqrt(mpf(noncentrality))
    root = mp.sqrt(2)
    near, far = mp.erfc((a - b) / root) / 2, mp.erfc((a + b) / root) / 2
    # From b - a to b + a, without a difference of numbers close to 1.
    tail = mp.erfc((b - a) / root) / 2 - far if lower else near + far
    if degrees == 1:
        return tail
    density = mp.exp(-((a - b) ** 2) / 2) * -mp.expm1(-2 * a * b) / (2 * b) / mp.sqrt(2 * mp.pi)
    return tail - 2 * density if lower else tail + 2 * density


def inversion(degrees: float, noncentrality: float, x: float, lower: bool) -> mpf:
    """Return (1/2 pi i) int w^{-d/2} e^{(nc/2)(1/w - 1) + (x/2)(w - 1)} dw/(w - 1) by the trapezoidal rule.

    The contour passes on the pole's side, two widths of the integrand away from the pole. The step is 1/12 of the
    width, and the omitted terms are below e^-140. d is the degrees of freedom, and nc the noncentrality.
    """
    d, nc, at = mpf(degrees), mpf(noncentrality), mpf(x)
    place, most = center(degrees, noncentrality, x)
    width = 1 / math.sqrt(degrees / 2 + 2 * most)
    away = 1 / (1 + 2 * width)
    c = mpf(max(place, 1 / away) if lower else min(place, away))
    step, total, first, k = mpf(width) / 12, mpf(0), None, 0
    while True:
        w = c * mp.mpc(1, (k + mpf(1) / 2) * step)
        term = mp.exp(-d / 2 * mp.log(w) + nc / 2 * (1 / w - 1) + at / 2 * (w - 1)) / (w - 1) * c
        first = first or abs(term)
        total += term.real
        k += 1
        if abs(term) < first * mpf(10) ** -35:
            break
    return abs(total) * step / mp.pi


def log_tail(degrees: float, noncentrality: float, x: float, lower: bool) -> mpf:
    """Return ln P(X <= x), or ln P(X > x), of a noncentral chi-square number X to 30 digits."""
    with mpmath.workdps(DIGITS):
        if degrees in (1, 3) and noncentrality > 300 and x > 0.01 * noncentrality:
            return mp.log(closed_form(int(degrees), noncentrality, x, lower))
        _, most = center(degrees, noncentrality, x)
        if most < 1000 and degrees <= 1000:
            return mp.log(mixture(degrees, noncentrality, x, lower))
        return mp.log(inversion(degrees, noncentrality, x, lower))
