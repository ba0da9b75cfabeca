"""Grid in x behind the moments of mixtures of shifted Gaussians: nodes, losses and strips.

One step has H1 = sum w_i N(s_i mu, 1) with weights w_i, shifts s_i and mu = 1/sigma. Its density is phi a with the
normal density phi, a(x) = sum w_i e^{v_i} and v_i = s_i mu x - s_i^2 mu^2/2. H0 is N(0, 1) with b = 1. For mirrored
steps H0 is the mirror image of H1, with b(x) = a(-x). L = ln a - ln b is the loss, and phi b is the density of H0. The
responsibilities r_i = w_i e^{v_i}/a are a law of the shift s at each x, with expectation E_x and mean m. Over the half
cells of the nodes next to x, |x' - x| <= h/2, with the distance h of the nodes:

    E_{x'} g = E_x(g e^{mu (s - m)(x' - x)}) / E_x e^{mu (s - m)(x' - x)} <= E_x(g e^{mu |s - m| h/2})     for g >= 0.

The denominator is at least 1 by Jensen. `near`, `spread` and `steepest` are these bounds for mu |s - m|, mu^2 (s - m)^2
and mu s. With A(x, q) = a(x + iq)/a(x) = E_x e^{iq mu s} they give for x' in the cell and |q'| <= q:

    |A| <= 1;    |A| >= Re e^{-iq' mu m} A = E_{x'} cos(q' mu (s - m)) >= 1 - q^2 spread/2 =: least;
    a'/a (x' + iq') = mu (m + E_{x'}((s - m) e^{iq' mu s})/A);
    |a'/a - mu m| <= near/least,    |a'/a| <= steepest/least;

    |A|^2 d arg A/dq = mu E_{x'} (s + s') cos(q mu (s - s'))/2 >= mu (E_{x'} s - (q mu)^2 E_{x'} (s + s')(s - s')^2/4).

In the last formula s' is an independent copy of s. So a has no zero where least > 0, however large the largest shift
is: only the spread of the shift at one x counts. There arg A = q mu m + arg(e^{-iq mu m} A), with the second argument
between +-pi/2, is the argument that vanishes at q = 0. It increases with q where the last bound is positive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.composition.summands.trapezoid import TrapezoidNodes
from service.privacy.mechanisms.abstract import GaussianMixturePart
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, SUM_BLOCK, UNIT_ROUNDOFF, sum_error
from service.privacy.numerics.work import count_work

_LARGEST_EXPONENT = 600.0
_A_STRIP = 0.02
"""Approximate work of a term at a node of a strip, microseconds."""
_LEAST_RATIO = -0.5
"""Where a - 1 is below this, or an exponent above that one, ln a is that of a sum of positive terms, and else log1p."""

_LARGEST_BLOCK = 500_000
"""Array elements of terms at nodes that are evaluated together."""

_BY_NODE = (
    *("x", "loss", "log_null_weight", "null_weight", "loss_error", "relative_error"),
    *("mean", "steepest", "near", "spread", "rising"),
)

_ANSWERABLE = 1e-40
"""Responsibility below which, at all nodes, a term is left out of A: far below a rounding of A."""


@dataclass(frozen=True, slots=True)
class MixtureTerms:
    """Positive shifts s_i and weights w_i of the mixtures sum w_i N(s_i mu, 1) of all parts, mu = 1/(noise multiplier).

    `shift` and `weight` have the shape (parts, terms), where unused terms have weight 0. `rest`, the weight of shift 0,
    and `weight_error`, the relative error of all weights, have the shape (parts,).
    """

    shift: FloatArray
    """s_i mu (a shift divided by the standard deviation of the noise), with a relative error of at most u = 2^-53."""
    weight: FloatArray
    rest: FloatArray
    """Weight of shift 0."""
    weight_error: FloatArray

    @staticmethod
    def of(parts: list[GaussianMixturePart]) -> MixtureTerms:
        """Return the shifts and weights of parts with any numbers of shifts, filled up with terms of weight 0."""
        most = max(sum(shift > 0 for shift in part.shifts) for part in parts)
        shift, weight = np.zeros((2, len(parts), most))
        rest = np.zeros(len(parts))
        for row, part in enumerate(parts):
            known = [(s, w) for s, w in zip(part.shifts, part.weights, strict=True) if s > 0]
            shift[row, : len(known)] = [s / part.noise_multiplier for s, _ in known]
            weight[row, : len(known)] = [w for _, w in known]
            if part.shifts[0] == 0:
                rest[row] = max(math.fsum([1.0, *(-w for _, w in known)]), 0.0)
        return MixtureTerms(shift, weight, rest, np.array([part.weight_error for part in parts]))

    @property
    def log_weight(self) -> FloatArray:
        """Logarithms of the weights w_i of the shifts, shape (parts, terms); -inf for unused terms."""
        with np.errstate(divide="ignore"):
            return np.log(self.weight)

    def some(self, parts: IndexArray) -> MixtureTerms:
        """Return the terms (shifts and weights) of the parts with the given indices."""
        return MixtureTerms(self.shift[parts], self.weight[parts], self.rest[parts], self.weight_error[parts])

    def only(self, kept: BoolArray) -> MixtureTerms:
        """Return the terms selected by the mask `kept`, shape (terms,), for all parts."""
        return MixtureTerms(self.shift[:, kept], self.weight[:, kept], self.rest, self.weight_error)


def log_ratio(terms: MixtureTerms, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ln a at x, a bound of its error, and the responsibilities of the terms.

    Parameters
    ----------
    terms : MixtureTerms
        Weights w_i and shifts s_i mu of the mixtures.
    x : (parts, n)
        Points. a(x) = w_0 + sum w_i e^{v_i}, v_i = s_i mu x - (s_i mu)^2/2, is the density ratio of the mixture to N(0,
        1).

    Returns
    -------
    log_a, error : (parts, n)
        ln a(x) and a bound of its absolute error.
    responsibilities : (parts, terms, n)
        w_i e^{v_i}/a, the probability of each shift given x.

    Notes
    -----
    As E0 a = 1 whatever the weights' errors are, a = 1 + sum w_i (e^{v_i} - 1) over the positive shifts. Relative
    errors of these weights change ln a by at most as much times sum w_i |e^{v_i} - 1|/a. Where a is small or large,
    positive terms are summed, with ln w_i and e^{...} within `FUNCTION_ERROR` each.
    """
    count = terms.shift.shape[1]
    shift, weight, log_weight = terms.shift[:, :, None], terms.weight[:, :, None], terms.log_weight[:, :, None]
    product, square = shift * x[:, None, :], 0.5 * shift**2
    v = product - square
    v_error = 4 * UNIT_ROUNDOFF * (np.abs(product) + square)
    shifted = np.expm1(np.minimum(v, _LARGEST_EXPONENT))
    size = (weight * np.abs(shifted)).sum(axis=1)
    change = (weight * shifted).sum(axis=1)
    plain = np.log1p(np.maximum(change, _LEAST_RATIO))
    by_exponent = (weight * (shifted + 1) * v_error).sum(axis=1)
    ratio = 1 + np.maximum(change, _LEAST_RATIO)
    rounding = (by_exponent + (FUNCTION_ERROR + (count + 4) * UNIT_ROUNDOFF) * size) / ratio
    relative_size = size / ratio
    extreme: BoolArray = np.asarray((change < _LEAST_RATIO) | (v.max(axis=1) > _LARGEST_EXPONENT))
    if extreme.any():
        summed = _log_of_sum(terms, v, v_error)
        plain, rounding, relative_size = (
            np.asarray(np.where(extreme, *both), dtype=np.float64)
            for both in zip(summed, (plain, rounding, relative_size), strict=True)
        )
    error = rounding + FUNCTION_ERROR * np.abs(plain) + terms.weight_error[:, None] * relative_size * 1.01
    return plain, error, np.exp(np.minimum(log_weight + v - plain[:, None], 0.0))


def _log_of_sum(terms: MixtureTerms, v: FloatArray, v_error: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return `(log_a, error, moved)` of a = w_0 + sum w_i e^{v_i}, a sum of positive terms; each of shape (parts, n).

    The weights w_i are those of `terms`, and `v` are the exponents v_i, shape (parts, terms, n), with absolute errors
    of at most `v_error`. `error` bounds the absolute error of `log_a`, and `moved` is an upper bound of sum w_i
    |e^{v_i} - 1|/a.
    """
    weight, log_weight = terms.weight[:, :, None], terms.log_weight[:, :, None]
    with np.errstate(divide="ignore"):
        log_rest = np.log(terms.rest)[:, None]
    joint = log_weight + v
    top = np.maximum(joint.max(axis=1), log_rest)
    parts, rest = np.exp(joint - top[:, None]), np.exp(log_rest - top)
    total = parts.sum(axis=1) + rest
    logged = FUNCTION_ERROR * np.abs(np.where(weight > 0, log_weight, 0.0))
    exponent = v_error + logged + 2 * UNIT_ROUNDOFF * (np.abs(v) + np.abs(top)[:, None])
    missing = (FUNCTION_ERROR + 2 * UNIT_ROUNDOFF) * np.abs(np.where(rest > 0, log_rest, 0.0)) * rest
    error = ((parts * exponent).sum(axis=1) + missing) / total + FUNCTION_ERROR
    error = error + (terms.shift.shape[1] + 4 + np.abs(top)) * UNIT_ROUNDOFF
    log_a = top + np.log(total)
    falling = np.minimum(weight * np.exp(np.minimum(-log_a, 700.0))[:, None], 1e300)
    moved = np.asarray(np.where(v > 0, parts / total[:, None], falling), dtype=np.float64)
    return log_a, error, moved.sum(axis=1)


@dataclass(frozen=True, kw_only=True)
class GaussianMixtureNodes(TrapezoidNodes):
    """Nodes x of the trapezoid sums of Gaussian mixtures, shape (parts, nodes); the last node has no weight.

    H1 has the density phi a with a(x) = sum w_i e^{s_i mu x - s_i^2 mu^2/2} and the normal density phi. s is the random
    shift given x, with the expectation E and the mean m, and mu = 1/(noise multiplier). A(x, q) is a(x + iq)/a(x). The
    cell of a node is the interval of half a node distance around it.
    """

    terms: MixtureTerms
    responsibility: FloatArray
    """Responsibilities of the terms, shape (parts, terms, nodes)."""
    mean: FloatArray
    """mu m, the derivative of ln a."""
    steepest: FloatArray
    """Upper bound of mu m over the cell."""
    near: FloatArray
    """Upper bound of mu E|s - m| over the cell."""
    spread: FloatArray
    """Upper bound of mu^2 E(s - m)^2 over the cell."""
    rising: FloatArray
    """Height up to which arg A increases, everywhere in the cell."""

    @staticmethod
    def build(
        terms: MixtureTerms, step: FloatArray, first: IndexArray, kept: IndexArray, *, mirrored: bool
    ) -> GaussianMixtureNodes:
        """Return the nodes of mixtures of Gaussians, with their losses and weights.

        Parameters
        ----------
        terms : MixtureTerms
            Shifts and weights of all parts.
        step : (parts,)
            Distances of the nodes, dyadic.
        first : (parts,)
            Index of the first node, which lies at index * step; unused if mirrored, as nodes are then symmetric about
            0.
        kept : (parts,)
            Number of nodes that have weight; an even number if mirrored.
        mirrored : bool
            Whether H0 is the mirror image of H1 in every step.
        """
        h = step[:, None]
        nodes = int(kept.max()) + 2
        nodes += -nodes % SUM_BLOCK
        start = (nodes - kept) // 2 if mirrored else np.zeros_like(kept)
        stop = start + kept
        x = (np.arange(nodes) + (-0.5 * (nodes - 1) if mirrored else first[:, None])) * h  # exact
        read = [_at_nodes(terms, x[:, part], h) for part in _blocks(nodes, terms.shift.size)]
        log_a, a_error, responsibility, mean, steepest, near, spread, rising = (
            pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=-1) for pieces in zip(*read, strict=True)
        )
        del read
        answerable: BoolArray = np.asarray((responsibility > _ANSWERABLE).any(axis=(0, 2)))
        log_b = log_a[:, ::-1] if mirrored else np.zeros_like(log_a)
        b_error = a_error[:, ::-1] if mirrored else np.zeros_like(log_a)
        loss = log_a - log_b
        loss_error = a_error + b_error + UNIT_ROUNDOFF * np.abs(loss)
        log_weight = -0.5 * x**2 + np.log(h / math.sqrt(2 * math.pi)) + log_b
        log_weight[(np.arange(nodes) < start[:, None]) | (np.arange(nodes) >= stop[:, None])] = -np.inf
        relative = UNIT_ROUNDOFF * (x**2 + 2 * np.abs(log_b) + 8) + 4 * FUNCTION_ERROR + sum_error(nodes) + b_error
        return GaussianMixtureNodes(
            x=x,
            step=h,
            start=start,
            stop=stop,
            mirrored=mirrored,
            loss=loss,
            log_null_weight=log_weight,
            null_weight=np.exp(log_weight),
            loss_error=loss_error,
            relative_error=relative,
            terms=terms.only(answerable),
            responsibility=responsibility[:, answerable],
            mean=mean,
            steepest=steepest,
            near=near,
            spread=spread,
            rising=rising,
        )

    def of(self, parts: IndexArray, kept: int) -> GaussianMixtureNodes:
        """Return the nodes of the parts with the given indices. None has more than `kept` nodes with weight."""
        nodes = kept + 2 + -(kept + 2) % SUM_BLOCK
        first = (self.x.shape[1] - nodes) // 2 if self.mirrored else 0
        by_node = {name: getattr(self, name)[parts, first : first + nodes] for name in _BY_NODE}
        return GaussianMixtureNodes(
            **by_node,
            step=self.step[parts],
            start=self.start[parts] - first,
            stop=self.stop[parts] - first,
            mirrored=self.mirrored,
            terms=self.terms.some(parts),
            responsibility=self.responsibility[parts, :, first : first + nodes],
        )

    def strip(self, height: FloatArray) -> MixtureStrip:
        """Return ln |A|, arg A and lower bounds of |A| for A(x, q) = a(x + iq)/a(x), at the nodes x and heights q.

        phi a is the density of H1, with the normal density phi. `height` holds q, shape (heights, parts).
        """
        count_work(_A_STRIP * height.size * self.responsibility.shape[-1] * (4 + self.responsibility.shape[-2]))
        q = height[..., None]
        phase = q * self.terms.shift
        sine = np.sin(0.5 * phase)
        turn = -2 * sine**2 + 2j * sine * np.cos(0.5 * phase)
        # A - 1, as all responsibilities together are 1; shape (E, parts, nodes).
        change = np.matmul(turn.swapaxes(0, 1), self.responsibility).swapaxes(0, 1)
        squared = 2 * change.real + change.real**2 + change.imag**2
        log_modulus = np.minimum(0.5 * np.log1p(np.maximum(squared, -1 + 1e-30)), 0.0)
        center = q * self.mean
        rest = np.angle((1 + change) * np.exp(-1j * center))
        least = 1 - 0.5 * q**2 * self.spread
        return MixtureStrip(height, log_modulus, center + rest, least)


@dataclass(frozen=True, slots=True)
class MixtureStrip:
    """Values of A(x, q) = a(x + iq)/a(x) at the nodes x and at heights q, for the density phi a of H1.

    phi is the normal density. `height` is q, shape (heights, parts). `log_modulus` is ln |A| and `argument` is arg A,
    shape (heights, parts, nodes). `least` is a lower bound of |A(x', q')| for x' within half a cell and |q'| <= q.
    Where it is not positive, the strip has no bound.
    """

    height: FloatArray
    log_modulus: FloatArray
    argument: FloatArray
    least: FloatArray


def _blocks(nodes: int, terms: int) -> list[slice]:
    """Return ranges of nodes that keep arrays of the shape (parts, terms, nodes) small, so that memory is bounded.

    A part is a number of equal steps of a run, and a term a shift of its mixture.
    """
    size = max(_LARGEST_BLOCK // terms // SUM_BLOCK, 1) * SUM_BLOCK
    return [slice(start, start + size) for start in range(0, nodes, size)]


def _at_nodes(terms: MixtureTerms, x: FloatArray, h: FloatArray) -> tuple[FloatArray, ...]:
    log_a, error, responsibility = log_ratio(terms, x)
    return log_a, error, responsibility, *_cell_moments(terms, responsibility, h, x, log_a)


def _cell_moments(
    terms: MixtureTerms, responsibility: FloatArray, h: FloatArray, x: FloatArray, log_a: FloatArray
) -> tuple[FloatArray, ...]:
    """Return d ln a/dx at the nodes, and the bounds `steepest`, `near`, `spread`, `rising` of `GaussianMixtureNodes`.

    All have the shape (parts, nodes), and the bounds hold over the cells. Half a cell to the left each term of a' is at
    least e^{-mu s h/2} times as large, and a is no larger. `responsibility` has the share of each term in a, and
    `log_a` is ln a. Here mu s is the shift of the term, h the distance of nodes, and a(x) the density of H1 over the
    normal density.
    """
    shift = terms.shift[:, :, None]
    mean = (responsibility * shift).sum(axis=1)
    distance = np.abs(shift - mean[:, None])
    # The responsibility of shift 0, if it has weight, is the rest of the others; 1e-14 covers their rounding.
    none = np.where(terms.rest[:, None] > 0, np.maximum(1 - responsibility.sum(axis=1), 0.0), 0.0)
    none = (none + 1e-14) * np.exp(0.5 * h * mean)
    exponent = 0.5 * h[:, None] * distance
    if float(exponent.max()) < _LARGEST_EXPONENT:
        far = responsibility * np.exp(exponent)
    else:  # of far shifts, whose responsibilities may be no doubles
        product, square = shift * x[:, None, :], 0.5 * shift**2
        error = 4 * UNIT_ROUNDOFF * (np.abs(product) + square)
        log_share = terms.log_weight[:, :, None] + (product - square) + error - log_a[:, None]
        far = np.exp(np.minimum(log_share + exponent, _LARGEST_EXPONENT))
    near = (far * distance).sum(axis=1) + none * mean
    spread = (far * distance**2).sum(axis=1) + none * mean**2
    powers = [far.sum(axis=1) + none, *((far * shift**k).sum(axis=1) for k in (1, 2, 3))]
    bent = 2 * (powers[0] * powers[3] - powers[1] * powers[2]) + 1e-12 * powers[0] * powers[3]
    least = (responsibility * shift * np.exp(-0.5 * h[:, None] * shift)).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = np.where(least > 0, 2 * np.sqrt(least / bent) * (1 - 1e-9), 0.0)
    return mean, powers[1] * (1 + 1e-9), near * (1 + 1e-9), spread * (1 + 1e-9), rising
