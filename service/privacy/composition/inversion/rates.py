"""Points of a run's curve, read off its lines."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from service.privacy.composition.inversion.readings.enclosures import Readings
from service.privacy.composition.inversion.readings.points import read_few_points
from service.privacy.composition.inversion.run import CUT_DIGITS
from service.privacy.composition.inversion.run_lines import HOPELESS, SLACK_OF_LISTS, RunLines, shared, without
from service.privacy.enclosure import Bounds
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.trade_off.abstract import CurvePoints


# Underflow, overflow and empty logarithms are part of the bounds: NaN never passes `Readings.tighten`.
@np.errstate(all="ignore")
def read_rates(lines: RunLines, alpha: FloatArray, rows: int) -> CurvePoints:
    """Points; their power (`rows` 1), or that and their type II error (2), as narrow as lines can make them."""
    n = len(alpha)
    known = Readings(np.stack([np.log(alpha), np.full(n, -np.inf), np.full(n, -np.inf)]), np.zeros((3, n)))
    known.upper[1], known.upper[2] = np.log1p(-alpha), np.inf
    orders = lines.run.cut_orders(np.minimum(alpha, 1 - alpha), np.abs(ndtri(alpha)))
    if n > 1:
        _read_on_few_lines(lines, orders, alpha, known, rows)
    ended, bent = True, np.zeros(0, dtype=np.intp)
    attempts = orders.shape[1]
    for attempt in range(attempts):
        if not ended:
            break
        cuts = orders[:, attempt]
        wide = (known.width(rows) > lines.good_width) & (cuts >= 0)
        for cut in sorted({int(cut) for cut in cuts[wide]}):
            grid = lines.grid(CUT_DIGITS[cut])
            if grid is not None:
                places = np.flatnonzero(wide & (cuts == cut))
                tilts = grid.for_rates(alpha[places])
                # Beyond the end of a grid lines of a deeper cut are nearer; those of mixtures are long there.
                deepest = attempt + 1 == attempts or (orders[places, attempt + 1 :] < 0).all(axis=1)
                ready = grid.reaches_rates(alpha[places]) | deepest | lines.run.is_straight
                tilts = [tilt for tilt, is_ready in zip(tilts, ready, strict=True) if is_ready]
                ended &= lines.read(
                    grid,
                    tilts,
                    places[ready],
                    known,
                    lambda line, at: read_few_points(line, alpha[at], lines.accuracy.straight),
                    rows,
                )
        if attempt == min(1, attempts - 1):
            bent = lines.wide(known, rows, HOPELESS)
            _read_bent(lines, bent, alpha, known)
    places = np.flatnonzero(known.width(rows) > lines.good_width)
    if len(places):
        known.tighten(places, lines.fallback.points(alpha[places]))
    _read_bent(lines, without(lines.wide(known, rows), bent), alpha, known)
    power = Bounds.from_logs(known.lower[0], known.upper[0])
    type_two_error = Bounds.from_logs(known.lower[1], known.upper[1])
    return CurvePoints(type_two_error, power, Bounds(known.lower[2], known.upper[2]))


def _read_on_few_lines(lines: RunLines, orders: IndexArray, alpha: FloatArray, known: Readings, rows: int) -> None:
    """Tighten the points of a list by lines that serve many of them."""
    cuts = shared(orders)
    for cut in sorted({int(cut) for cut in cuts}):
        grid, places = lines.grid(CUT_DIGITS[cut]), np.flatnonzero(cuts == cut)
        if grid is not None:
            tilts = grid.for_rates(alpha[places], SLACK_OF_LISTS)
            lines.read(
                None,
                tilts,
                places,
                known,
                lambda line, at: read_few_points(line, alpha[at], lines.accuracy.straight),
                rows,
            )


def _read_bent(lines: RunLines, places: IndexArray, alpha: FloatArray, known: Readings) -> None:
    """Tighten points at some places by a bent contour for each."""
    for place in places:
        if lines.bent is None:
            return
        found = lines.bent.points(float(alpha[place]), float(known.lower[0, place]))
        known.tighten(np.array([place]), found)
