"""Statistical bounds of the PMP parameter of the exponential mechanism from random n-subsets.

By the inequality of the means, Z = sum_v exp(L_v) >= prod (exp(L_v)/lambda_v)^lambda_v. So p(w|D) is at most the
product over D of exp(theta_wi - sum lambda_v theta_vi), divided by e^H(lambda). Symmetric polynomials allow exact draws
of n-subsets from this product weight. A draw is accepted with the probability p(w|D) over its bound. PMP is practical
membership privacy: the attacker does not know which records were drawn.

For an accepted D and a point x, consider the n exchanges of x with a partner. Given D or its exchanged subset, the
probability that x is in the subset is averaged over the partners. The mean of this average is P(x in D | w), whose odds
are P(w | x in D)/P(w | x not in D). `numerics/betting.py` gives intervals for the means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.betting import mean_at_least
from service.privacy.numerics.roots import many_bisected
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.pmp.exponential.population import Population, log_sum
from service.privacy.pmp.exponential.swap import SwapBounds

PROPOSALS_PER_SAMPLE = 16
"""Largest number of proposals for each requested sample."""
PROPOSALS_AT_ONCE = 4096
LARGEST_BATCH = 2**21
"""Largest size of the matrix (subsets x points) of a batch of proposals."""
SWAPS_AT_ONCE = 2**18
TILTING_ROUNDS, CENTRING_ROUNDS = 40, 40
ROUNDING = 1e-12
"""Upper bound of the rounding error of a mean of numbers in [0, 1]."""


@final
@dataclass(frozen=True, slots=True)
class LogOdds:
    """Simultaneous confidence bounds of ln(P(w | x in D)/P(w | x not in D)), nats, shape (objects, points).

    P(w | x in D) is the probability that the mechanism draws the object w, given that the data D contain the point x.
    """

    lower: FloatArray
    upper: FloatArray

    @property
    def smallest(self) -> FloatArray:
        """Lower bounds of the size |ln(P(w | x in D)/P(w | x not in D))| of the log odds, shape (objects, points).

        P(w | x in D) is the probability that the mechanism draws the object w, given that the data D contain the point
        x.
        """
        return np.maximum(np.maximum(self.lower, -self.upper), 0.0)

    @property
    def largest(self) -> FloatArray:
        """Upper bounds of the size |ln(P(w | x in D)/P(w | x not in D))| of the log odds, shape (objects, points).

        P(w | x in D) is the probability that the mechanism draws the object w, given that the data D contain the point
        x.
        """
        return np.maximum(self.upper, -self.lower)


def sampled_log_odds(population: Population, bounds: SwapBounds, samples: int, seed: int, failure: float) -> LogOdds:
    """Compute confidence intervals of the log-odds of membership of all objects and points.

    Parameters
    ----------
    population : Population
        The mechanism on the population.
    bounds : SwapBounds
        Upper bounds by swapped points. Objects and points whose swap bound is below a proved lower bound of others keep
        the swap bound.
    samples : int
        Largest number of accepted subsets for each object.
    seed : int
        Seed of the random numbers.
    failure : float
        All intervals hold with probability 1 - `failure`; each bound has a share of failure/(2 m N).

    Returns
    -------
    LogOdds
        Bounds in nats, shape (objects, points).

    Notes
    -----
    The cost is about n^2 (m + 4) for each sample, with m objects.
    """
    odds = LogOdds(-bounds.without, bounds.with_point.copy())
    reach, known = bounds.either.max(axis=1), 0.0
    tilts = _tilts(population.logits, population.half)
    log_factor = math.log(2 * population.logits.size / failure)
    # Rounded logits and table entries change the probabilities of the draws by a factor, and the log odds by a sum.
    points = population.logits.shape[1]
    slack = population.ratio_error + 4 * points**2 * UNIT_ROUNDOFF * (population.spread + 2 * points)
    for chosen in np.argsort(-reach, kind="stable").tolist():
        if reach[chosen] <= known:
            break
        generator = np.random.default_rng([seed, chosen])
        chances = _sampled_chances(population, chosen, tilts[chosen], samples, generator)
        near = bounds.either[chosen] > known
        lowest, highest = expit(-bounds.loss[chosen, near]), expit(bounds.gain[chosen, near])
        lower, upper = _ends(chances[:, near], lowest, highest, log_factor)
        odds.lower[chosen, near] = np.maximum(odds.lower[chosen, near], logit(np.maximum(lower, lowest)) - slack)
        odds.upper[chosen, near] = np.minimum(odds.upper[chosen, near], logit(np.minimum(upper, highest)) + slack)
        known = max(known, float(odds.smallest[chosen].max()))
    return odds


def _ends(
    chances: FloatArray, lowest: FloatArray, highest: FloatArray, log_factor: float
) -> tuple[FloatArray, FloatArray]:
    """Return (lower, upper) confidence bounds of the means of the columns of `chances`.

    The numbers of a column lie in [lowest, highest]. `log_factor` is ln(1/failure), where failure is the probability
    that a bound is wrong.
    """
    if not len(chances):
        return lowest, highest
    # Rounded numbers may lie outside the range.
    from_below, from_above = np.maximum(chances - lowest, 0.0), np.maximum(highest - chances, 0.0)
    widths = np.maximum(highest - lowest, ROUNDING)
    lower = mean_at_least(from_below, widths, log_factor)
    upper = mean_at_least(from_above, widths, log_factor)
    return lowest + lower - ROUNDING, highest - upper + ROUNDING


def _tilts(logits: FloatArray, size: int) -> FloatArray:
    """Return, in row w, weights over all objects that make an upper bound of p(w|D) small; shape (objects, objects).

    p(w|D) is the probability that the mechanism draws w from data D of `size` points. The upper bound weighs the logits
    of all objects by lambda, and any weights lambda give a valid bound. The result approximately minimises ln e_n -
    H(lambda), with the elementary symmetric polynomial e_n and the entropy H. The saddlepoint bound min over c of sum
    ln(1 + e^(t + c)) - n c replaces ln e_n, where t are the logits of w minus the weighted logits. The weights move
    towards the softmax of the mean logits under the tilted law, where the gradient is 0.
    """
    objects = len(logits)
    log_weights = np.full((objects, objects), -math.log(objects))
    step, best = np.full((objects, 1), 0.5), np.full((objects, 1), np.inf)
    kept, target = log_weights, log_weights
    for _ in range(TILTING_ROUNDS):
        weights = np.exp(log_weights)
        scores = logits - weights @ logits
        centre = _centre(scores, size)
        height = np.logaddexp(0, scores + centre).sum(axis=1, keepdims=True) - size * centre
        height += (weights * log_weights).sum(axis=1, keepdims=True)
        better = height < best
        best, kept = np.where(better, height, best), np.where(better, log_weights, kept)
        step = np.where(better, np.minimum(step * 1.2, 1.0), step / 2)
        found = expit(scores + centre) @ logits.T
        target = np.where(better, found - log_sum(found, 1)[:, None], target)
        log_weights = (1 - step) * kept + step * target
        log_weights -= log_sum(log_weights, 1)[:, None]
    return np.exp(kept)


def _centre(scores: FloatArray, size: int) -> FloatArray:
    """Return, for each row of scores, the c at which the numbers 1/(1 + e^-(score + c)) sum to `size`, by bisection."""
    low: FloatArray = -scores.max(axis=1, keepdims=True) - math.log(scores.shape[1])
    high: FloatArray = -scores.min(axis=1, keepdims=True) + math.log(scores.shape[1])
    low, high = many_bisected(lambda c: expit(scores + c).sum(axis=1, keepdims=True) > size, low, high, CENTRING_ROUNDS)
    return (low + high) / 2


def _sampled_chances(
    population: Population, chosen: int, weights: FloatArray, samples: int, generator: np.random.Generator
) -> FloatArray:
    """Draw subsets, and return the probability that each point is in each accepted subset, shape (accepted, points).

    The probability is that given the subset up to one exchanged point and the drawn object with the index `chosen`.
    `weights` of the objects, of sum 1, define a proposal law of subsets. Proposals are drawn and accepted at random by
    `generator`, until `samples` are accepted or the proposals are used up.
    """
    logits, size = population.logits, population.half
    scores = logits[chosen] - weights @ logits
    positive = weights[weights > 0]
    entropy = -float((positive * np.log(positive)).sum())
    table = _log_symmetric_polynomials(scores, size)
    found = np.empty((samples, logits.shape[1]))
    accepted, proposed, block = 0, 0, max(1, SWAPS_AT_ONCE // size**2)
    batch = max(1, min(PROPOSALS_AT_ONCE, 2 * samples, LARGEST_BATCH // len(scores)))
    while accepted < samples and proposed < PROPOSALS_PER_SAMPLE * samples:
        members = _weighted_subsets(scores, table, size, batch, generator)
        proposed += len(members)
        sums = members @ logits.T
        log_acceptance = sums[:, chosen] - log_sum(sums, 1) - (members @ scores - entropy)
        members = members[generator.random(len(members)) < np.exp(log_acceptance)][: samples - accepted]
        for start in range(0, len(members), block):
            part = members[start : start + block]
            found[accepted : accepted + len(part)] = _chances_of_membership(logits, chosen, part)
            accepted += len(part)
    return found[:accepted]


def _log_symmetric_polynomials(scores: FloatArray, size: int) -> FloatArray:
    """Return ln e_k of the weights exp(scores) of the points from i on as entry [i, k], shape (points + 1, `size` + 1).

    e_k is the elementary symmetric polynomial of order k.
    """
    table = np.full((len(scores) + 1, size + 1), -np.inf)
    table[:, 0] = 0.0
    for point in range(len(scores) - 1, -1, -1):
        table[point, 1:] = np.logaddexp(table[point + 1, 1:], scores[point] + table[point + 1, :-1])
    return table


def _weighted_subsets(
    scores: FloatArray, table: FloatArray, size: int, count: int, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw subsets of `size` points with probability proportional to exp(sum of their scores).

    `table` is that of `_log_symmetric_polynomials` for these `scores`, shape (points,). The result is a mask of shape
    (`count`, points), drawn by `generator`.
    """
    members = np.empty((count, len(scores)), np.bool_)
    left = np.full(count, size)
    for point in range(len(scores)):
        chance = np.exp(scores[point] + table[point + 1, np.maximum(left - 1, 0)] - table[point, left])
        members[:, point] = (generator.random(count) < chance) & (left > 0)
        left -= members[:, point]
    return members


def _chances_of_membership(logits: FloatArray, chosen: int, members: NDArray[np.bool_]) -> FloatArray:
    """Return the probability that each point x is in the data, for each subset D in `members`, shape (subsets, points).

    D is known up to one exchange, which replaces one point by another. The probability is the mean over the n exchanges
    D' of D with x of p(w|E)/(p(w|D) + p(w|D')). E is the one of D and D' that contains x. w is the object with the
    index `chosen`, and p(w|D) the probability that the mechanism draws w from D. `logits` has the shape (objects,
    points).
    """
    count, size = len(members), logits.shape[1] // 2
    inside = np.nonzero(members)[1].reshape(count, size)
    outside = np.nonzero(~members)[1].reshape(count, size)
    sums = (members @ logits.T)[:, None, :]
    # Z after the exchange is e^(row + column) times a product of exponentials, which are at most 1.
    without = sums - logits.T[inside]
    entering = logits.T[outside]
    row, column = without.max(axis=2), entering.max(axis=2)
    products = np.exp(without - row[:, :, None]) @ np.exp(entering - column[:, :, None]).transpose(0, 2, 1)
    log_normaliser = log_sum(sums[:, 0], 1)[:, None]
    kept = np.exp(log_normaliser - logits[chosen][inside] - row)[:, :, None]
    # p(w|D')/p(w|D) for D' = D with a row's point exchanged for a column's.
    ratios = kept * np.exp(logits[chosen][outside] - column)[:, None, :]
    ratios /= products
    ratios += 1
    chances = np.reciprocal(ratios, out=ratios)
    found = np.empty(members.shape)
    np.put_along_axis(found, inside, chances.mean(axis=2), axis=1)
    np.put_along_axis(found, outside, 1 - chances.mean(axis=1), axis=1)
    return found
