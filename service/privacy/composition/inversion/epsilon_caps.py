"""Upper bounds of epsilon and of type II errors that need no contour, by Chernoff bounds at real tilts."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from service.privacy.composition.inversion.direction_contours import DirectionContours
from service.privacy.composition.inversion.run_law import TRUNCATION_DIGITS
from service.privacy.numerics.arrays import FloatArray

_CAP_TILTS = np.geomspace(1.0, 12.0, 8)
"""Distances of tilts from 1, in inverse deviations of the loss, that bound epsilon where a normal core dominates."""
_CAP_TILTS_OF_JUMPS = np.geomspace(0.25, 16.0, 6)
"""Distances of tilts from 1, in inverse nats, that bound epsilon where few jumps of about a nat dominate the loss."""
_CAP_SLACK = 1e-11
"""Relative slack of these bounds, far above their rounding and far below their looseness."""
_SMALLEST_DEVIATION = 1e-12
"""Deviation (nats) of the loss below which the tilts no longer grow, so that they stay in the range of doubles."""


@np.errstate(all="ignore")
def epsilon_cap(contours: DirectionContours, delta: float) -> float:
    """Return an upper bound of the epsilon at which the profile is `delta`, in nats.

    It is the smallest Chernoff bound at a few tilts (`chernoff_caps`), and at most the largest loss of the run. Without
    a log-moment function of the run it is that largest loss. `contours` are the contours of one direction of the run.
    """
    most = max(contours.largest_log_ratio.upper, 0.0)
    first = contours.run.levels(delta, abs(float(ndtri(delta))))[0]
    transform = contours.run.transform(TRUNCATION_DIGITS[first], reflected=contours.reflected)
    if transform is None:
        return most
    s = 1 + np.concatenate([_CAP_TILTS / max(contours.run.deviation, _SMALLEST_DEVIATION), _CAP_TILTS_OF_JUMPS])
    cumulants = transform.cumulants(s)
    truncated = np.array([transform.log_truncated_mass[1]])
    caps = chernoff_caps(s[:, None], cumulants.value[:, None], cumulants.error[:, None], truncated, delta)
    return min(float(caps[0]), most)


def chernoff_caps(
    tilts: FloatArray, value: FloatArray, error: FloatArray, log_truncated_mass: FloatArray, delta: FloatArray | float
) -> FloatArray:
    """Return upper bounds of epsilon(delta) of R runs, in nats, shape (R,).

    S is the loss of a run, K(s) = ln E0 e^{sS} its log-moment function under H0, and delta(eps) its privacy profile.

    Parameters
    ----------
    tilts, value, error : (S, R)
        Tilts s > 1, computed K(s), and a bound of its absolute error; NaN where unknown.
    log_truncated_mass : (R,)
        ln of the mass of H1 that K omits by truncation.
    delta : float or (R,)
        Values of delta.

    Returns
    -------
    array, shape (R,)
        Upper bounds in nats; infinite where `delta` is not above the omitted mass.

    Notes
    -----
    delta(eps) <= e^{K(s) - (s-1) eps} (1/s)(1-1/s)^{s-1}, plus the omitted mass of H1, is solved for eps at each tilt
    (`fallback.py`).
    """
    left = delta * (1 - _CAP_SLACK) - np.exp(log_truncated_mass)
    terms = np.stack([value, error, -np.log(tilts), (tilts - 1) * np.log1p(-1 / tilts)])
    log_left = np.log(np.where(left > 0, left, 1.0))
    found = (terms.sum(axis=0) - log_left + _CAP_SLACK * np.abs(terms).sum(axis=0)) / (tilts - 1)
    least = np.where(np.isnan(found), np.inf, found).min(axis=0)
    caps = np.maximum(least, 0.0) * (1 + _CAP_SLACK) + _CAP_SLACK
    return np.where(left > 0, caps, np.inf)


def chernoff_missed(
    tilts: FloatArray, value: FloatArray, error: FloatArray, log_truncated_mass: FloatArray, alpha: FloatArray
) -> FloatArray:
    """Return upper bounds of the type II errors of R runs at the false positive rates `alpha`, shape (R,).

    S is the loss of a run, and K(s) = ln E0 e^{sS} is its log-moment function under H0.

    Parameters
    ----------
    tilts, value, error : (S, R)
        Tilts 0 < s < 1, computed K(s), and a bound of its absolute error; NaN where unknown.
    log_truncated_mass : (R,)
        ln of the mass of H1 that K omits by truncation.
    alpha : (R,)
        Rates in (0, 1).

    Returns
    -------
    array, shape (R,)
        Upper bounds, at most about 1.

    Notes
    -----
    The test S > c of the rate alpha has the type II error E0[e^S; S <= c] <= e^{K(s) + (1-s) c}. As the power is at
    most 1, e^c <= 1/alpha. The omitted mass of H1 is added.
    """
    terms = np.stack([value, error, (tilts - 1) * np.log(alpha)])
    found = terms.sum(axis=0) + _CAP_SLACK * np.abs(terms).sum(axis=0)
    least = np.where(np.isnan(found), np.inf, found).min(axis=0)
    return np.minimum(np.exp(least) + np.exp(log_truncated_mass), 1.0) * (1 + _CAP_SLACK)
