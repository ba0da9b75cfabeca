"""Deformed contour of a run in z: straight panels along a hyperbola with Gauss-Legendre quadrature.

The integrand is F(z) = prod M_k(z)^{N_k} e^{mu^2 (z^2 - z)/2 - (z - theta) c}, for kinds k of steps and a Gaussian part
of shift mu. M_k is the moment-generating function of the loss of one of N_k steps, theta is the real number at which
the contour starts, and c is a threshold of the loss. M_k(z) is an integral along any path G_k, and B_G(z) >= |M_k(z)|
is the integral of the modulus along G (majorant, `majorant.py`). With z = x + it, for any paths G_k, ln|F| <= U(z),
where U(z) = sum N_k ln B_{G_k}(z) + mu^2 (x^2 - t^2 - x)/2 - (x - theta) c.

Without the Gaussian part U is convex, and its maximum over a polygon is at a vertex. With the Gaussian part, U on an
edge (dx, dt) exceeds the larger of its values at both vertices by at most mu^2 (dt^2 - dx^2)/8. |F| is largest on the
boundary. Take a panel with a Bernstein ellipse E_rho inside a polygon without poles. The kernel is 1/z, 1/(z - 1) or
1/(z (z - 1)). The error of n nodes is at most:

    8 |d| rho^{1 - 2n}/(rho - 1) max_E |F kernel|,    d: half the panel.

The rule is exact up to degree 2n - 1, and a Chebyshev series truncated there errs by at most 2 rho^{1 - 2n}/(rho - 1)
max|F|. Panels are halved until the bound is small. Each panel uses the path whose largest U at the vertices is
smallest. Beyond the last panel the exact contour continues vertically, where B_G falls with t on every path with arg w
>= 0, where ln w is the loss along G.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from service.privacy.composition.inversion.deformed.majorant import MajorantGrid, Strips, least_real
from service.privacy.composition.inversion.deformed.paths import ComplexArray, Paths
from service.privacy.numerics.arrays import FloatArray, IndexArray, joined, taken

NODES = 40
"""Number of nodes of every panel."""

_RADII = np.array([1.4, 1.8, 2.4, 3.2, 4.5, 6.5, 10.0])
"""Bernstein radii that are tried."""

_CORNERS = 8
_CORNER = np.exp(2j * math.pi * (np.arange(_CORNERS) + 0.5) / _CORNERS) / math.cos(math.pi / _CORNERS)
"""Corners of the octagon around the unit circle."""

_BREADTH = 0.68
"""Half of the breadth of most octagons around the ellipse, over half of the panel."""

_ENOUGH = 15.0
"""Nats below the goal at which |F| is small enough."""

_SPARE = 8.0
"""Nats below the goal for which a panel's error is planned."""

_ROUNDS = 5
_EXTENSIONS = 3
"""Maximal number of panels that are added beyond the planned end, one at a time."""

_MOST_PANELS = 80
_DOUBLINGS = 40


Grids = tuple[MajorantGrid, ...]


@dataclass(frozen=True, slots=True)
class Bend:
    """Curve of an inversion integral: z = theta + side b sin(psi) (cosh u - 1) + i b cos(psi) sinh u for u >= 0.

    theta is the point on the real axis, b = `width`, psi = `angle`, and side is 1 for a contour that bends to the right
    and -1 to the left.
    """

    theta: float
    width: float
    angle: float
    side: float

    def points(self, u: FloatArray) -> ComplexArray:
        """Return the points z of the contour at the parameters u, of their shape."""
        across = self.side * self.width * math.sin(self.angle) * (np.cosh(u) - 1)
        return self.theta + across + 1j * self.width * math.cos(self.angle) * np.sinh(u)

    def parameters(self) -> FloatArray:
        """Return the parameters u at which the panels of the contour begin, increasing from 0, an array of one axis.

        The heights Im z about double from one to the next.
        """
        rises = math.ceil(math.log2(max(self.width / self.theta, 1.0)))
        near = 0.5 * self.width * 2.0 ** np.arange(-rises, 1.0)
        return np.concatenate([[0.0], np.arcsinh(near / self.width), 1.0 + 0.7 * np.arange(36)])


class Panel(NamedTuple):
    """Q straight panels [start, end] of a contour in z, with proved bounds; the first axis of all arrays is the panel.

    M is the moment-generating function of the loss of one of N steps of a kind, and B >= |M| is its majorant along a
    path (`majorant.py`). An octagon encloses the Bernstein ellipse of each panel. F is the integrand (`panels.py`).

    Attributes
    ----------
    start, end : (Q,)
        Ends of the panels.
    paths, end_bounds, strips : tuples
        For each kind of step: its paths, upper bounds (Q, 2) of ln B at both ends, and strips at both ends and at 0.
    corners, corner_bounds : (Q, 8)
        Corners of the octagons, and upper bounds of sum N ln B there.
    distances : (Q, 2)
        Distances of the octagons from 0 and 1.
    rule : (Q,)
        ln of the factor of max|F kernel| in the quadrature error.
    """

    start: ComplexArray
    end: ComplexArray
    paths: tuple[Paths, ...]
    corners: ComplexArray
    corner_bounds: FloatArray
    distances: FloatArray
    end_bounds: tuple[FloatArray, ...]
    strips: tuple[Strips, ...]
    rule: FloatArray


class ContourLayout:
    """Panels of one contour and the bounds of their errors, for thresholds c near `center` (nats).

    F(z) = prod M_k(z)^{N_k} e^{mu^2 (z^2 - z)/2 - (z - theta) c} is the integrand. M_k is the moment-generating
    function of the loss of one of N_k steps of the kind k. mu^2 is that of a Gaussian part, and the contour starts at
    theta on the real axis. B_k >= |M_k| is a majorant. U(z) >= ln|F(z)| is the sum of N_k ln B_k and of the real parts
    of the other exponents. Errors are those of the integrals I0(c), I1(c), ID(c) with the kernels 1/z, 1/(z - 1) and
    1/(z (z - 1)), which are both tails of the loss and the profile. The *goal* is ln of the error aimed at, relative to
    e^`value`. The *vertical rest* is the part of the contour beyond the last panel.
    """

    def __init__(
        self,
        grids: Grids,
        bend: Bend,
        center: float,
        log_goal: float,
        value: float,
        reflected: bool,
        gaussian_mu_squared: float = 0.0,
    ) -> None:
        """Store the shape of a contour.

        Parameters
        ----------
        grids : Grids
            Grid of majorants of each kind of step.
        bend : Bend
            Shape of the contour.
        center : float
            Threshold for which the contour is laid out, in nats.
        log_goal : float
            ln of the error aimed at, relative to e^value. Only the layout depends on it.
        value : float
            Approximate ln F(theta), with the integrand F of `ContourLayout`.
        reflected : bool
            Whether the hypotheses are swapped.
        gaussian_mu_squared : float
            mu^2 of the Gaussian part.
        """
        self.grids, self.bend, self.center, self.goal = grids, bend, center, log_goal
        self.value, self.reflected, self.gaussian_mu_squared = value, reflected, gaussian_mu_squared

    def on(self, grids: Grids) -> ContourLayout:
        """Return a contour of the same shape with other grids of majorants, for which no panel is laid out yet.

        Majorants are upper bounds of the moment-generating functions.
        """
        given = self.bend, self.center, self.goal, self.value, self.reflected, self.gaussian_mu_squared
        return ContourLayout(grids, *given)

    def moments_at(self, z: ComplexArray) -> ComplexArray:
        """Return the points at which moments under H0 are evaluated for the contour's points z, of their shape.

        They are z, or 1 - conj(z) if the hypotheses are swapped. The moment at the latter point is the conjugate of the
        moment at z.
        """
        return 1 - np.conj(z) if self.reflected else z

    def log_sizes(self, log_majorants: FloatArray, z: ComplexArray, shift: FloatArray | float) -> FloatArray:
        """Return an upper bound of ln|F(z)/F(theta)| of the inversion integrand F, up to the error of `value`.

        theta is the point of the contour on the real axis, and `value` approximates ln F(theta). `log_majorants` is sum
        N ln B at z, where B is an upper bound of the moment-generating function of one of N steps. The threshold is
        center + `shift`. The result has the broadcast shape of the arguments.
        """
        gaussian = 0.5 * self.gaussian_mu_squared * (z.real**2 - z.imag**2 - z.real)
        if self.gaussian_mu_squared > 0:  # mu^2 and its products are rounded
            gaussian = gaussian + 1e-12 * self.gaussian_mu_squared * np.abs(z) ** 2
        return log_majorants + gaussian - self.value - (z.real - self.bend.theta) * (self.center + shift)

    def _bulge(self, polygons: ComplexArray) -> FloatArray:
        """Return how much U may exceed its vertex values on an edge of each of the `polygons`; shape (..., 8) -> (...).

        U is an upper bound of ln|F| for the integrand F of the inversion integral. U is convex except for the Gaussian
        part.
        """
        edge = np.roll(polygons, -1, axis=-1) - polygons
        return 0.125 * self.gaussian_mu_squared * np.maximum(edge.imag**2 - edge.real**2, 0.0).max(axis=-1)

    def cost(self) -> float:
        """Return a number that ranks contours: the smallest is the least expensive, infinity is unusable.

        The number adds half of the number of panels, the largest ln|F| on the panels, and a tenth of the digits (in
        nats) that the error aimed at lies below 1. F is the integrand relative to its value on the real axis.
        """
        corners, size = self._corners
        if len(corners) < 2:
            return math.inf
        # Octagons of panels must stay right of the smallest Re z of the majorants.
        halves = np.abs(np.diff(corners)) / (corners[:-1].real - self._least_real) * 0.5 * _BREADTH
        panels = 1 + float(np.ceil(np.maximum(halves, 1.0)).sum())
        return 0.5 * panels + max(float(size.max()), 0.0) - 0.1 * self.goal

    @cached_property
    def _least_real(self) -> float:
        """Smallest Re z at which bounds of the moment-generating functions are needed, over all kinds of steps."""
        return max(least_real(grid.step, self.bend.theta) for grid in self.grids)

    @cached_property
    def _corners(self) -> tuple[ComplexArray, FloatArray]:
        """Points of the contour up to its possible end, and approximate smallest U there, each of shape (n,).

        U bounds ln|F| for the integrand F of the inversion integral, and is minimised over the paths of the moments.
        There is one point only where the contour cannot end.
        """
        corners = self.bend.points(self.bend.parameters())
        there = self.moments_at(corners)
        least = sum(grid.step.count * grid.estimates(there).min(axis=0) for grid in self.grids)
        size = self.log_sizes(np.asarray(least), corners, 0.0)
        small = np.flatnonzero(size < self.goal - 3)
        # Reflected losses get one more point, as the best path of the last panel is not the best at its end.
        end = min(int(small[0]) + self.reflected, len(corners) - 1) if len(small) else 0
        return corners[: end + 1], size[: end + 1]

    def lay_out(self) -> bool:
        """Divide the contour into panels and prove the error bounds of quadrature on each.

        Return whether that succeeds.
        """
        corners = self._corners[0]
        starts, ends, further = corners[:-1], corners[1:], self.bend.points(self.bend.parameters())[len(corners) :]
        proved: list[Panel] = []
        for end in (None, *further[:_EXTENSIONS]):
            if end is not None:  # the rest is not small yet
                starts, ends = ends[-1:], np.array([end])
            if not self._prove_panels(starts, ends, proved):
                return False
            panels = joined(proved)
            self.panels = taken(panels, np.argsort(panels.start.imag))
            self._prove_rest(ends[-1])
            if self._log_rest(np.zeros(1))[1, 0] < self.goal + 3:
                return True
        return False

    def _prove_panels(self, starts: ComplexArray, ends: ComplexArray, proved: list[Panel]) -> bool:
        """Append panels from each start to its end to `proved`, and return whether all their error bounds are proved.

        `starts` and `ends` have one complex point for each panel in the complex plane. A panel without a small error
        bound is halved. Return False if there are too many panels, or still unproved ones after a fixed number of
        halvings.
        """
        for _ in range(_ROUNDS):
            if len(starts) == 0 or sum(len(part.start) for part in proved) + len(starts) > _MOST_PANELS:
                break
            path, radius, error = self._plan(starts, ends)
            planned = np.flatnonzero(error < self.goal - 4)
            good = np.zeros(len(starts), dtype=np.bool_)
            if len(planned):
                part = self._prove(starts[planned], ends[planned], [one[planned] for one in path], radius[planned])
                fine = self._log_rules(part, np.zeros(1))[1, :, 0] < self.goal - 3
                for bounds, strips in zip(part.end_bounds, part.strips, strict=True):
                    fine &= np.isfinite(bounds).all(axis=1) & strips.finite
                proved.append(taken(part, np.flatnonzero(fine)))
                good[planned[fine]] = True
            middle = 0.5 * (starts + ends)[~good]
            starts, ends = np.concatenate([starts[~good], middle]), np.concatenate([middle, ends[~good]])
        return len(starts) == 0 and bool(proved)

    def _plan(self, starts: ComplexArray, ends: ComplexArray) -> tuple[list[IndexArray], IndexArray, FloatArray]:
        """Return the best path of each kind of step, the best Bernstein radius and about ln of the error of Q panels.

        A path is the line of integration of a moment in the plane of the step's outcome. Paths are lists of indices
        (Q,) in the family of each kind, and radii are indices (Q,) in `_RADII`. `starts` and `ends` are the end points
        of the panels. Bounds are proved later, for any choice.
        """
        paths = self._chosen_paths(starts, ends)
        polygons = _polygons(starts, ends, _RADII)
        there = self.moments_at(polygons.reshape(len(starts), -1))
        majorants = sum(
            grid.step.count * grid.plain(taken(grid.family, path), there)
            for grid, path in zip(self.grids, paths, strict=True)
        )
        sizes = self.log_sizes(np.asarray(majorants).reshape(polygons.shape), polygons, 0.0).max(axis=-1)
        kernel = np.minimum(_distance(polygons, 0.0), _distance(polygons, 1.0))
        error = _log_quadrature(starts, ends, _RADII) + sizes + self._bulge(polygons)
        error = error - np.log(np.maximum(kernel, 1e-300))
        error = np.where((kernel > 0) & ~np.isnan(error), error, np.inf)
        # Narrow ellipses are easier to prove than wide ones. An error below this is small enough.
        enough = error < self.goal - _SPARE
        radius = np.argmin(np.where(enough, np.arange(len(_RADII)), len(_RADII) + error - error.min()), axis=1)
        return paths, radius, error[np.arange(len(starts)), radius]

    def _chosen_paths(self, starts: ComplexArray, ends: ComplexArray) -> list[IndexArray]:
        """Return for each kind of step the path with small |F| at the tips of the Bernstein ellipses of Q panels.

        The results are indices (Q,) in the family of each kind. The other kinds use the best path at each tip. A path
        is the line of integration of a moment in the plane of the step's outcome. F is the integrand of the inversion
        integral. `starts` and `ends` are the end points of the panels.
        """
        tips = _polygons(starts, ends, np.array([2.4]))[:, 0, ::2]
        tips = np.asarray(np.maximum(tips.real, self._least_real) + 1j * tips.imag, dtype=np.complex128)
        there = self.moments_at(tips.ravel())
        sizes = [(grid.step.count * grid.provable(there)).reshape(-1, *tips.shape) for grid in self.grids]
        best = [one.min(axis=0) for one in sizes]
        rest = self.log_sizes(np.asarray(sum(best)), tips, 0.0)
        # Smaller errors than needed gain nothing, because the tails of the grid limit the proof of such paths.
        totals = ((one + (rest - least)).max(axis=-1) for one, least in zip(sizes, best, strict=True))
        return [np.maximum(total, self.goal - _ENOUGH).argmin(axis=0) for total in totals]

    def _prove(self, starts: ComplexArray, ends: ComplexArray, path: list[IndexArray], radius: IndexArray) -> Panel:
        """Return Q panels with proved bounds of the moments at the corners of their octagons, at their ends and at 0.

        `starts` and `ends` are the end points of the panels, shape (Q,). The octagon encloses the ellipse on which the
        quadrature error is bounded (`Panel`). `path` has the index of the path of integration of each panel for each
        kind of step, and `radius` the index of the radius of that ellipse.
        """
        every = np.arange(len(starts))
        polygons = _polygons(starts, ends, _RADII)[every, radius]
        both = np.stack([starts, ends], axis=1)
        points = np.concatenate(
            [self.moments_at(polygons), self.moments_at(both), np.zeros((len(both), 1), dtype=np.complex128)], axis=1
        )
        paths = tuple(taken(grid.family, one) for grid, one in zip(self.grids, path, strict=True))
        found = [grid.log_bounds(own, points) for grid, own in zip(self.grids, paths, strict=True)]
        corner_bounds = sum(
            grid.step.count * bounds[:, :_CORNERS] for grid, (bounds, _) in zip(self.grids, found, strict=True)
        )
        return Panel(
            start=starts,
            end=ends,
            paths=paths,
            corners=polygons,
            corner_bounds=np.asarray(corner_bounds) + self._bulge(polygons)[:, None],
            distances=np.stack([_distance(polygons, 0.0), _distance(polygons, 1.0)], axis=1),
            end_bounds=tuple(bounds[:, _CORNERS : _CORNERS + 2] for bounds, _ in found),
            strips=tuple(strips.from_point(_CORNERS) for _, strips in found),
            rule=_log_quadrature(starts, ends, _RADII)[every, radius],
        )

    def _prove_rest(self, last: ComplexArray) -> None:
        """Prove bounds of the moment-generating functions on the vertical line above `last`, at doubling heights.

        `last` is the end of the contour's last panel. The paths of the moments are those of the last panel.
        """
        self._beyond = last.real + 1j * last.imag * 2.0 ** np.arange(_DOUBLINGS)
        there = self.moments_at(self._beyond)[None]
        total, closing = np.zeros(_DOUBLINGS), np.full(_DOUBLINGS, np.inf)
        for grid, paths in zip(self.grids, self.panels.paths, strict=True):
            path = taken(paths, np.array([-1]))
            bounds = grid.log_bounds(path, there)[0][0]
            total = total + grid.step.count * bounds
            closing = np.fmin(closing, grid.log_variation(path, there)[0] - bounds)
        self._beyond_bounds, self._closing = total, closing

    def _log_rules(self, panels: Panel, shift: FloatArray) -> FloatArray:
        """Return ln of bounds of the quadrature error of Q panels for the integrals I0, I1, ID, shape (3, Q, C).

        I0 and I1 are the tails of the loss under H0 and H1, and ID is its profile, at C thresholds center + `shift`
        (nats).
        """
        size = self.log_sizes(panels.corner_bounds[..., None], panels.corners[..., None], shift).max(axis=1)
        zero, one = np.maximum(panels.distances.T, 0.0)
        kernel = -np.log(np.stack([zero, one, zero * one]))[..., None]
        return panels.rule[:, None] + size + kernel - math.log(math.pi)

    def log_errors(self, shift: FloatArray) -> FloatArray:
        """Return ln of error bounds of I0, I1, ID (quadrature and truncation) at C thresholds center + `shift`, (3, C).

        I0 and I1 are the tails of the loss under H0 and H1, and ID is its profile. The contour crosses the real axis at
        theta. The errors at the threshold c are relative to e^{value - (theta - pole) c}, with the pole 0 for I0 and 1
        for I1 and ID.
        """
        rule = np.logaddexp.reduce(self._log_rules(self.panels, shift), axis=1)
        return np.logaddexp(rule, self._log_rest(shift))

    def _log_rest(self, shift: FloatArray) -> FloatArray:
        """Return ln of bounds of the vertical rest of I0, I1, ID at C thresholds center + `shift`, shape (3, C).

        The vertical rest is the part of the contour above its last panel. F is the integrand of the inversion, I0 and
        I1 are the tails of the loss under both hypotheses, and ID is its profile. The rest is (1/pi) int |F| dt/t for
        I0 and I1, and (1/pi) int |F| dt/t^2 for ID. It is bounded by blocks [t, 2t] of the height t, the last of which
        uses |M| <= V/t of one step, with a constant V.
        """
        sizes = self.log_sizes(self._beyond_bounds[:, None], self._beyond[:, None], shift)
        heights = np.log(self._beyond.imag)[:, None]
        closing = sizes + self._closing[:, None] - heights
        blocks = np.logaddexp.accumulate(sizes + math.log(math.log(2)), axis=0)
        blocks = np.concatenate([np.full((1, len(shift)), -np.inf), blocks[:-1]])
        rest = np.logaddexp(blocks, closing)  # whatever block the closing follows, the sum is a bound
        best = rest.min(axis=0)
        third = best - heights[0]
        return np.stack([best, best, third]) - math.log(math.pi)


def _polygons(starts: ComplexArray, ends: ComplexArray, radii: FloatArray) -> ComplexArray:
    """Return octagons around ellipses, as corners of shape (Q, R, 8).

    Each of Q panels from a point of `starts` to the same entry of `ends` has a Bernstein ellipse for each of R radii,
    on which the error of quadrature is bounded. A radius is the sum of the half-axes of the ellipse around [-1, 1].
    """
    middle, half = 0.5 * (starts + ends), 0.5 * (ends - starts)
    wide, high = 0.5 * (radii + 1 / radii)[:, None], 0.5 * (radii - 1 / radii)[:, None]
    shape = wide * _CORNER.real + 1j * high * _CORNER.imag
    return middle[:, None, None] + half[:, None, None] * shape


def _distance(polygons: ComplexArray, pole: float) -> FloatArray:
    """Return a lower bound of the distance of a pole from each polygon, not positive where the pole may be inside.

    Polygons have the shape (..., 8), and the result the shape (...).
    """
    along = np.roll(polygons, -1, axis=-1) - polygons
    normal = along / (1j * np.abs(along))
    return ((pole - polygons) * np.conj(normal)).real.max(axis=-1) * (1 - 1e-9)


def _log_quadrature(starts: ComplexArray, ends: ComplexArray, radii: FloatArray) -> FloatArray:
    """Return ln(8 |d| rho^{1 - 2n}/(rho - 1)), the factor of the quadrature error of Q panels for R radii; (Q, R).

    d is half of the panel, rho is the radius of its Bernstein ellipse, and n is the number of its nodes. `starts` and
    `ends` are the end points of the panels.
    """
    half = 0.5 * np.abs(ends - starts)
    return np.log(8 * half)[:, None] + (1 - 2 * NODES) * np.log(radii) - np.log(radii - 1)
