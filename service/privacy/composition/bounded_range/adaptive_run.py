"""Exponential steps whose shifts are chosen adaptively, as one curve: grids for the recursion, and its readings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, final

import numpy as np
from typing_extensions import override

from service.privacy.composition.bounded_range.fixed_shifts import Groups
from service.privacy.composition.bounded_range.recursion import any_order, fixed_order, log_end_profile
from service.privacy.enclosure import SMALLEST, Bounds, Enclosure, Evidence
from service.privacy.errors import NumericalFailure, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_down, log_up, with_logs
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.symmetric_polygon import Readings, SymmetricPolygon

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw

MOST_STEPS: Final = 100
"""Exponential steps of one recursion."""
MOST_CELLS: Final = 512
FEWEST_CELLS: Final = 8
"""Of the largest epsilon."""
MOST_TABLES: Final = 4_000
"""Ways to have some of each kind of step left."""
WORST_ROUNDING: Final = 5e-3
"""Of an epsilon to a multiple of the spacing, relative; where it is more the step is left out of the recursion."""
END_NODES: Final = 400
"""Nodes where the closed form holds, in geometric order towards the end."""
NEAREST_END: Final = 1e-9
"""Of the largest loss: nodes nearer to it would not be told apart from it."""
KEPT_POLYGONS: Final = 16
"""Of up to 300 kB."""

SOURCE: Final = "Dong, Durfee, Rogers 2020 (optimal composition for exponential mechanisms), adaptive shifts"


@dataclass(frozen=True, slots=True)
class Grid:
    """A spacing, and for each group its range in multiples of it from above and from below."""

    spacing: float
    above: tuple[int, ...]
    below: tuple[int, ...]


def grid_for(groups: Groups, tolerance: float = 0.0) -> Grid | None:
    """The grid of a recursion; None where it would be too much work, or rounds an epsilon too much."""
    tables = math.prod(count + 1 for _, count in groups)
    largest = max(epsilon for epsilon, _ in groups)
    steps = sum(count for _, count in groups)
    if tables > MOST_TABLES:
        return None
    # Rows times shifts of all tables, for one cell in the largest epsilon.
    shares = [(epsilon / largest, count) for epsilon, count in groups]
    total = sum(share * count for share, count in shares)
    work = tables * (0.5 * total + 1) * sum(share for share, _ in shares)
    cells = min(int(math.sqrt(4e6 * (1 + steps / 25) / work)), MOST_CELLS, math.ceil(_cells_for(tolerance, steps)))
    if cells < FEWEST_CELLS:
        return None
    if len(groups) == 1:
        return Grid(largest / cells, (cells,), (cells,))
    ratios = np.array([share for share, _ in shares])
    choices = np.arange(cells, max(cells // 2, FEWEST_CELLS) - 1, -1, dtype=np.float64)
    places: FloatArray = choices[:, None] * ratios
    off = np.abs(places - np.round(places)) / places
    off = np.where(off < 8 * UNIT_ROUNDOFF, 0.0, off)
    chosen = int(np.argmin((off * (np.round(places) >= 1) + 1.0 * (places < 1)).max(axis=1)))
    if off[chosen].max() > WORST_ROUNDING or places[chosen].min() < 1:
        return None
    rows = [(float(place), float(error)) for place, error in zip(places[chosen], off[chosen], strict=True)]
    return Grid(
        largest / int(choices[chosen]),
        tuple(math.ceil(place) if error else round(place) for place, error in rows),
        tuple(math.floor(place) if error else round(place) for place, error in rows),
    )


def _cells_for(tolerance: float, steps: int) -> float:
    """Cells in the largest epsilon that about reach a relative width."""
    return max(math.sqrt(4 * (1 + math.log(steps)) / max(tolerance, 1e-12)), FEWEST_CELLS)


@final
@dataclass(frozen=True, slots=True, kw_only=False)
class ExponentialRun(AbstractStep):
    """Up to MOST_STEPS exponential steps as one: no mechanism of the wire, but the pair that dominates all their
    adaptive compositions, and whose profile one of them attains at every epsilon.
    """

    type: ClassVar[str] = "exponential"
    groups: Groups
    tolerance: float

    @override
    def curves(self, sensitivity: float) -> TradeOffPair:
        curve = ExponentialRunTradeOff(self.groups, self.tolerance)
        return TradeOffPair(curve, curve, SOURCE)

    @override
    def loss_law(self, sensitivity: float) -> LossLaw:
        raise UnsupportedCombination("method", "exponential", "the law of a run of exponential steps is not known.", ())


@final
class ExponentialRunTradeOff(AbstractTradeOff):
    """The worst case over adaptive compositions of exponential steps, in the worst order; its own inverse.

    An adversary may also draw the strategy at random, so that the curve is the conjugate of the profile. delta within
    about 1e-6 (2 steps), 1e-5 (10) and 1e-3 (100 steps of epsilon up to about 3); far tails relatively wider. Within
    the smallest epsilon of the largest loss the profile and its inverse are closed forms.
    """

    evidence = Evidence.CERTIFIED
    method = "discretised"

    def __init__(self, groups: Groups, tolerance: float) -> None:
        self._groups, self._tolerance = groups, tolerance
        self._ranges = [epsilon for epsilon, count in groups for _ in range(count)]
        self._largest = math.fsum(self._ranges)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        """Sum of the epsilons: every step at its largest loss."""
        slack = 2 * UNIT_ROUNDOFF
        return Enclosure(self._largest * (1 - slack), self._largest * (1 + slack), Evidence.CERTIFIED)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        largest = self.largest_log_ratio
        return Enclosure(-largest.upper, -largest.lower, Evidence.CERTIFIED)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return Enclosure.point(0.0)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        """Not known."""
        return None

    @override
    def reversed(self) -> AbstractTradeOff:
        return self

    @property
    def _polygon(self) -> SymmetricPolygon:
        return _polygon(self._groups, self._tolerance)

    def _log_end(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return _log_end(x, self._ranges)

    @override
    @np.errstate(all="ignore")
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        read, flat, steep = self._polygon.points(alpha)
        most = self.largest_log_ratio.upper
        return CurvePoints(
            with_logs(read.rest_low, read.rest_high),
            with_logs(read.low, read.high),
            Bounds(np.maximum(flat, -most), np.minimum(steep, most)),
        )

    @override
    @np.errstate(all="ignore")
    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        x = np.abs(epsilon)
        read = self._polygon.at(x)
        below, slack = epsilon < 0, 4 * FUNCTION_ERROR
        # 1 - c(-x) = (1 - e^-x) + e^-x delta(x).
        rise, fall = -np.expm1(-x), np.exp(-x)
        low = np.where(below, (rise + fall * read.low) * (1 - slack), read.low)
        high = np.where(below, np.minimum((rise + fall * read.high) * (1 + slack), 1.0), read.high)
        logs = log_down(low), log_up(high)
        near = (epsilon > self._largest - min(self._ranges)) & ~below
        log_low, log_high = self._log_end(np.where(near, x, self._largest))
        lower = np.where(near, np.maximum(logs[0], log_low), logs[0])
        upper = np.where(near, np.minimum(logs[1], log_high), logs[1])
        return Bounds.from_logs(np.minimum(lower, upper), upper)

    @override
    @np.errstate(all="ignore")
    def _epsilon_formula(self, delta: float) -> Enclosure:
        lower, upper = self._polygon.epsilon(delta)
        start = np.array([self._largest - min(self._ranges) * (1 - 1e-9)])
        if math.log(delta) * (1 - FUNCTION_ERROR) < float(self._log_end(start)[0][0]):
            k = len(self._ranges)
            rest = [math.log(-math.expm1(-epsilon)) for epsilon in self._ranges]
            logs = (math.log(delta) + math.fsum(rest)) / (k + 1)
            size = (abs(math.log(delta)) + sum(map(abs, rest)) + k) / (k + 1)
            error = 4 * FUNCTION_ERROR * (1 + size)
            away = [(k + 1) * _log_rest(min(logs + sign * error, -SMALLEST)) for sign in (1, -1)]
            near = 8 * UNIT_ROUNDOFF
            lower = max(lower, (self._largest - away[0] * (1 + near)) * (1 - near))
            upper = min(upper, (self._largest - away[1] * (1 - near)) * (1 + near))
        return Enclosure(max(min(lower, upper), 0.0), max(upper, 0.0), Evidence.CERTIFIED)


def _log_rest(logs: float) -> float:
    """-ln(1 - e^logs) for logs < 0, from the smaller of both terms."""
    return -math.log1p(-math.exp(logs)) if logs < -0.7 else -math.log(-math.expm1(logs))


@lru_cache(maxsize=KEPT_POLYGONS)
def _polygon(groups: Groups, tolerance: float) -> SymmetricPolygon:
    """Both recursions at their nodes, and the closed form where it holds."""
    grid = grid_for(groups, tolerance) or grid_for(groups)  # coarse ones may round too much
    if grid is None:
        raise NumericalFailure("a run of exponential steps that no grid serves")
    counts = [count for _, count in groups]
    high = any_order(grid.spacing, tuple(zip(grid.above, counts, strict=True)))
    low = fixed_order(grid.spacing, tuple(n for n, count in zip(grid.below, counts, strict=True) for _ in range(count)))
    pad = len(high.profile) - len(low.profile)
    values = np.array(
        [
            np.concatenate([low.profile, np.zeros(pad)]),
            high.profile,
            high.complement,
            np.concatenate([low.complement, np.ones(pad)]),
        ]
    )
    ranges = [epsilon for epsilon, count in groups for _ in range(count)]
    largest, least = math.fsum(ranges), min(ranges)
    nodes = np.arange(len(high.profile), dtype=np.float64) * grid.spacing
    inner = nodes < largest - least * (1 + 1e-9)
    ends, closed = _end_nodes(nodes[~inner & (nodes < largest)], grid.spacing, ranges)
    last = np.array([[0.0], [0.0], [1.0], [1.0]])
    return SymmetricPolygon(
        np.concatenate([nodes[inner], ends, [largest]]),
        Readings(*np.concatenate([values[:, inner], closed, last], axis=1)),
    )


def _end_nodes(nodes: FloatArray, spacing: float, ranges: list[float]) -> tuple[FloatArray, FloatArray]:
    """Nodes where the closed form holds, and its values there in the order of `Readings`."""
    largest = math.fsum(ranges)
    near = largest * NEAREST_END
    away = np.unique(np.concatenate([np.geomspace(near, spacing, END_NODES), largest - nodes]))[::-1]
    ends = largest - away[(away > 0.999 * near) & (away < min(ranges))]
    ends = ends[np.concatenate([[True], np.diff(ends) > 0.25 * near])]
    low, high = (np.exp(log) for log in _log_end(ends, ranges))
    low, high = low * (1 - FUNCTION_ERROR), np.minimum(high * (1 + FUNCTION_ERROR) + SMALLEST, 1.0)
    rounding = 2 * UNIT_ROUNDOFF
    return ends, np.array([low, high, np.maximum((1 - high) - rounding, 0.0), np.minimum((1 - low) + rounding, 1.0)])


def _log_end(x: FloatArray, ranges: list[float]) -> tuple[FloatArray, FloatArray]:
    """Both ends of ln delta at x (within 2 u of the largest loss) within the smallest epsilon of the largest loss."""
    largest = math.fsum(ranges)
    error = 4 * UNIT_ROUNDOFF * largest
    ends: list[FloatArray] = []
    for sign in (-1, 1):
        away = np.clip(largest - x + sign * error, 0.0, min(ranges) + error)
        logs, rounding = log_end_profile(away, ranges)
        ends.append(np.minimum(logs + sign * np.where(np.isfinite(logs), rounding, 0.0), 0.0))
    return ends[0], ends[1]
