"""Laws of the privacy loss of the elementary steps: Gaussian, Laplace, two-point and exponential.

Sampled Gaussian steps have nodes of the trapezoidal rule in the noise y. The integrand is analytic, so that the error
falls exponentially in the inverse distance of the nodes. The continuous part of Laplace steps has Gauss-Legendre panels
in the loss. Each atom is one node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import ndtr

from service.privacy.enclosure import EnclosureArray
from service.privacy.losses.law import GaussianLossLaw, Hypothesis, LossLaw, NodeLossLaw
from service.privacy.losses.sampled_ratio import base_log_ratio, sampled_log_ratio
from service.privacy.numerics.arrays import FloatArray

REACH = 20.0
"""Distance on both sides of a mode in standard deviations of the noise, because tilts move the modes into the tails."""
WIDEST_STEP = 0.25
ALIASING_EXPONENT = 44.0
"""Exponent of the trapezoidal error, which is about p^2 e^-44 (moments of weak steps are of the order p^2), or
e^{-2 pi^2 / h^2} if this is larger.
"""
ONE_GRID = 60.0
"""Largest shift with one grid over all modes. Between more distant modes the mass is negligible at relevant tilts."""
PANEL_NODES = 20


def gaussian_loss(mu: float) -> LossLaw:
    """Return the law of the privacy loss L = ln dP1/dP0 for P0 = N(0, 1) against P1 = N(mu, 1)."""
    return GaussianLossLaw(mu)


def two_point_loss(epsilon: float, delta: float) -> LossLaw:
    """Return the law of the privacy loss for the worst pair of (eps, delta)-DP: L is eps or -eps, or infinite.

    Parameters
    ----------
    epsilon : float
        >= 0, in nats.
    delta : float
        Mass outside the other hypothesis, in [0, 1].

    Returns
    -------
    LossLaw
        Law of the loss.

    Notes
    -----
    Given that L is finite, P0(L = eps) = 1/(1 + e^eps) (Kairouz, Oh, Viswanath 2015).
    """
    log_larger = -math.log1p(math.exp(-epsilon))

    def distribution(losses: FloatArray, hypothesis: Hypothesis) -> FloatArray:
        below = math.exp(log_larger - epsilon if hypothesis else log_larger)
        return np.where(losses >= epsilon, 1.0, np.where(losses >= -epsilon, below, 0.0))

    return NodeLossLaw(
        losses=np.array([-epsilon, epsilon]),
        log_weights=np.array([log_larger, log_larger - epsilon]),
        smallest=-epsilon,
        largest=epsilon,
        exact_distribution=distribution,
        singular_mass=delta,
    )


def listed_loss(losses: FloatArray, log_absent: FloatArray, log_present: FloatArray) -> LossLaw:
    """Return the law of a privacy loss with listed values.

    Parameters
    ----------
    losses : array, shape (n,)
        Losses in nats, ascending.
    log_absent, log_present : array, shape (n,)
        ln of their masses under H0 and under H1.
    """
    below = [np.concatenate([[0.0], np.cumsum(np.exp(logs))]) for logs in (log_absent, log_present)]

    def distribution(at: FloatArray, hypothesis: Hypothesis) -> FloatArray:
        return np.minimum(below[hypothesis][np.searchsorted(losses, at, side="right")], 1.0)

    return NodeLossLaw(losses, log_absent, float(losses[0]), float(losses[-1]), distribution)


def laplace_loss(mu: float, sample_rate: float = 1.0) -> LossLaw:
    """Return the law of the privacy loss for Laplace(0, 1) against Laplace(mu, 1), sampled at rate p.

    Parameters
    ----------
    mu : float
        Distance of both laws, > 0.
    sample_rate : float
        p, in (0, 1].

    Returns
    -------
    LossLaw
        Law of the loss of Laplace(0, 1) against (1 - p) Laplace(0, 1) + p Laplace(mu, 1).

    Notes
    -----
    The base loss has the atoms -mu with P0-mass 1/2, and mu with P0-mass e^-mu/2. Between them its density is e^{-(l +
    mu)/2}/4.
    """
    nodes, log_lengths = _panels(mu, sample_rate)
    base = np.concatenate(([-mu], nodes, [mu]))
    log_inner = log_lengths - 0.5 * (nodes + mu) - math.log(4)
    log_weights = np.concatenate(([-math.log(2)], log_inner, [-mu - math.log(2)]))

    def distribution(losses: FloatArray, hypothesis: Hypothesis) -> FloatArray:
        inside = np.clip(losses, -mu, mu)
        below = 0.5 * np.exp(0.5 * (inside - mu)) if hypothesis else 1 - 0.5 * np.exp(-0.5 * (inside + mu))
        return np.where(losses >= mu, 1.0, np.where(losses >= -mu, below, 0.0))

    plain = NodeLossLaw(base, log_weights, -mu, mu, distribution)
    return plain if sample_rate == 1 else _sampled(plain, sample_rate)


def bounded_range_loss(eta: float) -> LossLaw:
    """Return the law of a privacy loss with the worst-case curve of one exponential mechanism.

    `eta` is the length of the interval of losses, nats. The density under H0 at the loss l is e^{-(l+eta)/2}/(2 (1 -
    e^-eta)) for |l| < eta.
    """
    if eta == 0:
        return two_point_loss(0.0, 0.0)
    nodes, log_lengths = _panels(eta, 1.0)
    whole = -math.expm1(-eta)
    log_weights = log_lengths - 0.5 * (nodes + eta) - math.log(2 * whole)

    def distribution(losses: FloatArray, hypothesis: Hypothesis) -> FloatArray:
        inside = np.clip(losses, -eta, eta)
        below = -np.expm1(-0.5 * (inside + eta))  # under H0; the density under H1 is e^l times that under H0
        return (np.exp(0.5 * (inside - eta)) if hypothesis else 1.0) * below / whole

    return NodeLossLaw(nodes, log_weights, -eta, eta, distribution)


def sampled_gaussian_loss(noise_multiplier: float, sample_rate: float) -> LossLaw:
    """Return the law of the privacy loss for N(0, 1) against (1 - p) N(0, 1) + p N(1/sigma, 1), 0 < p < 1.

    sigma is `noise_multiplier`, and p is `sample_rate`.
    """
    sigma, mu = noise_multiplier, 1 / noise_multiplier
    # The loss has branch points where 1 - p + p e^v vanishes, at y0 +- i pi sigma. Their effect is proportional to the
    # noise density there.
    branch = sigma * math.log((1 - sample_rate) / sample_rate) + 0.5 * mu
    needed = ALIASING_EXPONENT - 2 * math.log(sample_rate) - 0.5 * branch * branch
    step = WIDEST_STEP if needed <= 0 else min(WIDEST_STEP, 2 * math.pi**2 * sigma / max(needed, 5.0))
    y = _grid(mu, step)
    log_weights = -0.5 * y * y + math.log(step / math.sqrt(2 * math.pi))

    def distribution(losses: FloatArray, hypothesis: Hypothesis) -> FloatArray:
        return ndtr(losses / mu + (-0.5 if hypothesis else 0.5) * mu)

    base = NodeLossLaw((y - 0.5 * mu) * mu, log_weights, -math.inf, math.inf, distribution)
    return _sampled(base, sample_rate)


def _sampled(base: NodeLossLaw, rate: float) -> NodeLossLaw:
    """Return the law of the loss ln(1 - p + p e^L) of a step on a random sample, where p is the sampling rate `rate`.

    `base` is the law of the loss L without sampling. The law under H0 is unchanged, and H1 becomes the mixture (1 - p)
    H0 + p H1.
    """

    def distribution(losses: FloatArray, hypothesis: Hypothesis) -> FloatArray:
        below = _middle(base_log_ratio, np.asarray(losses, dtype=np.float64), rate)
        absent = base.distribution(below, 0)
        return (1 - rate) * absent + rate * base.distribution(below, 1) if hypothesis else absent

    smallest, largest = _middle(sampled_log_ratio, np.array([base.smallest, base.largest]), rate).tolist()
    losses = _middle(sampled_log_ratio, base.losses, rate)
    return NodeLossLaw(losses, base.log_weights, smallest, largest, distribution)


def _middle(map_enclosed: Callable[[FloatArray, float], EnclosureArray], values: FloatArray, rate: float) -> FloatArray:
    bounds = map_enclosed(values, rate)
    return np.where(bounds.lower == bounds.upper, bounds.upper, 0.5 * bounds.lower + 0.5 * bounds.upper)


def _grid(mu: float, step: float) -> FloatArray:
    """Return quadrature nodes of a normal outcome, at a distance of about `step`, where tilted laws have their mass.

    The outcome of a step has the shift `mu`. Its laws tilted by e^{sL}, for the loss L and s = 0, 1, 2, have modes at
    0, mu and 2 mu. The nodes surround these modes and fill gaps between close modes.
    """
    if mu <= ONE_GRID:
        ends = [(-REACH, max(mu + REACH, 2 * mu + 13))]
    else:
        ends = [(mode - REACH, mode + REACH) for mode in (0.0, mu, 2 * mu)]
    pieces = [
        np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64) * step for low, high in ends
    ]
    return np.concatenate(pieces)


def _panels(mu: float, sample_rate: float) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes of a loss on (-mu, mu), and ln of their weights, two arrays of shape (nodes,).

    p is the sampling rate `sample_rate`. The sampled loss has branch points at ln((1 - p)/p) +- i pi. Panels grow with
    their distance from the endpoints and from ln((1 - p)/p).
    """
    anchors = [-mu, mu]
    if sample_rate < 1:
        branch = math.log((1 - sample_rate) / sample_rate)
        if -mu < branch < mu:
            anchors.insert(1, branch)
    breaks = [-mu]
    for low, high in pairwise(anchors):
        half, reached, distances = 0.5 * (high - low), 0.0, [0.0]
        while reached < half:
            reached = min(reached + max(1.0, 0.5 * reached), half)
            distances.append(reached)
        breaks += [low + distance for distance in distances[1:]]
        breaks += [high - distance for distance in reversed(distances[:-1])]
    points, weights = leggauss(PANEL_NODES)
    edges = np.array(breaks)
    middles, halves = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    nodes = middles[:, np.newaxis] + halves[:, np.newaxis] * points
    with np.errstate(divide="ignore"):
        return nodes.ravel(), np.log(halves[:, np.newaxis] * weights).ravel()
