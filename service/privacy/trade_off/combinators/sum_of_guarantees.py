"""Upper bounds of a composition from (epsilon, delta) guarantees of its parts, which add up: basic composition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, Alternatives, CurvePoints
from service.privacy.trade_off.delegating import DelegatingCurve
from service.privacy.trade_off.enclosed.logs import chosen, log_ends, relative_widths

WIDE: Final = 0.5
"""Relative width above which the guarantees of parts are added up: sums rarely improve a narrower enclosure."""
DELTAS: Final = (0.0, 1e-290, 1e-100, 1e-40, 1e-20, 1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.3)
"""Values of delta of the composition for which the guarantees are stored, in rising order."""
SMALLEST_SHARE: Final = 1e-300
"""Smallest delta of a part, so that products with counts are accurate."""
OUTWARD: Final = 1 + 2.0**-48
"""Factor that covers the rounding of shares and sums."""
SLACK: Final = 1e-13
"""Error of a logarithm, relative to 1 + its size: far above the rounding of its computation."""


@final
class Guarantees:
    """(epsilon, delta) guarantees of a composition, as sums over its parts.

    P1 and P0 are the laws with and without the record. If part i satisfies (eps_i, delta_i)-DP in one direction, the
    composition satisfies (sum eps_i, sum delta_i)-DP in that direction: the part of P1 below e^{eps_i} P0 has at least
    the mass 1 - delta_i, and the product of these parts lies below e^{sum eps_i} P0 (Dwork, Roth 2014, Theorem 3.16).

    Steps with losses in [-eps_i, eps_i] are rho-zero-concentrated DP with rho = sum eps_i^2/2, so that they satisfy
    (rho + 2 sqrt(rho ln(1/delta)), delta)-DP (Bun, Steinke 2016, Propositions 1.3 and 1.4).

    Parameters
    ----------
    parts : callable
        Returns the parts of the composition, with alternative descriptions of each. It is called at the first use.
    """

    def __init__(self, parts: Callable[[], Sequence[Alternatives]]) -> None:
        self._make_parts = parts

    @cached_property
    def parts(self) -> Sequence[Alternatives]:
        """Parts of the composition with alternative descriptions of each, built at the first use."""
        return self._make_parts()

    def reversed(self) -> Guarantees:
        """Return the guarantees for swapped hypotheses."""

        def parts() -> Sequence[Alternatives]:
            return [[(curve.reversed(), count) for curve, count in part] for part in self.parts]

        return Guarantees(parts)

    def epsilon(self, delta: float) -> float:
        """Return an upper bound of epsilon at one delta, of which every part has an equal share.

        Parts with bounded losses share one delta, if that is better.

        Parameters
        ----------
        delta : float
            In [0, 1).

        Returns
        -------
        float
            Upper bound of epsilon, nats.
        """
        known = _sum(self.parts, delta)
        bounded = [part for part in self.parts if _root_divergence(part) < math.inf]
        if not bounded or delta < SMALLEST_SHARE:
            return known
        rest = [part for part in self.parts if _root_divergence(part) == math.inf]
        share = delta / 2 if rest else delta
        root = math.hypot(*map(_root_divergence, bounded)) * OUTWARD  # rho itself would underflow for tiny losses
        concentrated = root * (root + 2 * math.sqrt(-math.log(share))) * OUTWARD
        return min(known, (concentrated + _sum(rest, share)) * OUTWARD)

    @cached_property
    def stored(self) -> tuple[FloatArray, FloatArray]:
        """Epsilon (nats) and ln delta of the guarantees at the rising deltas `DELTAS`; shape (pairs,) each."""
        pairs = [(self.epsilon(delta), math.log(delta) if delta else -math.inf) for delta in DELTAS]
        pairs.append((0.0, float(self._shared_log_delta(np.zeros(1))[0])))
        known = np.array([pair for pair in pairs if pair[0] < math.inf]).reshape(-1, 2)
        return known[:, 0], known[:, 1]

    @np.errstate(all="ignore")
    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return upper bounds of ln delta at each epsilon, from the stored guarantees.

        Parameters
        ----------
        epsilon : array, shape (n,)
            Nats.

        Returns
        -------
        array, shape (n,)
            Upper bounds of ln delta, at most 0.
        """
        known, logs = self.stored
        stored = np.where(known <= epsilon[:, None], logs, 0.0).min(axis=1, initial=0.0)
        some = epsilon >= 0
        if some.any() and not is_spent():
            stored[some] = np.minimum(stored[some], self._shared_log_delta(epsilon[some]))
        return stored

    def _shared_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return upper bounds of ln delta at each epsilon >= 0, of which every step has an equal share; shape (n,)."""
        share = epsilon / max(sum(_steps(part) for part in self.parts), 1) / OUTWARD
        logs = np.log(sum((_delta(part, share) for part in self.parts), np.full_like(share, SMALLEST_SHARE)))
        return np.minimum(logs + SLACK * (1 + np.abs(logs)), 0.0)

    @np.errstate(all="ignore")
    def log_power(self, alpha: FloatArray) -> FloatArray:
        """Return upper bounds of ln power: a guarantee means power <= e^eps alpha + delta.

        Parameters
        ----------
        alpha : array, shape (n,)
            False positive rates in (0, 1).

        Returns
        -------
        array, shape (n,)
            Upper bounds of ln power.
        """
        known, logs = self.stored
        sums = np.logaddexp(known + np.log(alpha)[:, None], logs)
        return np.minimum((sums + SLACK * (1 + np.abs(sums) + known)).min(axis=1, initial=np.inf), 0.0)

    @np.errstate(all="ignore")
    def log_error(self, alpha: FloatArray) -> FloatArray:
        """Return lower bounds of ln of the type II error beta from guarantees for swapped hypotheses.

        This object has the guarantees for the swapped hypotheses. They mean 1 - alpha <= e^eps beta + delta, where
        alpha and beta belong to the hypotheses in order.

        Parameters
        ----------
        alpha : array, shape (n,)
            False positive rates in (0, 1).

        Returns
        -------
        array, shape (n,)
            Lower bounds of ln beta.
        """
        known, logs = self.stored
        rest = np.log1p(-alpha[:, None] - np.exp(logs) * OUTWARD - 2 * SLACK) - known
        rest = rest - SLACK * (1 + np.abs(rest) + known)
        return np.where(np.isnan(rest), -np.inf, rest).max(axis=1, initial=-np.inf)


def _sum(parts: Sequence[Alternatives], delta: float) -> float:
    """Return the sum of epsilon (nats) over all parts, each at an equal share of `delta`.

    The smallest epsilon of the alternative descriptions of a part counts.
    """
    share = delta / max(len(parts), 1) / OUTWARD
    if share < SMALLEST_SHARE:
        share = 0.0
    return math.fsum(min(_epsilon(*each, share) for each in part) for part in parts) * OUTWARD


def _root_divergence(part: Alternatives) -> float:
    """Return sqrt(rho) such that a part is rho-zero-concentrated DP: rho is half the sum of its squared largest losses.

    The smallest rho of the alternative descriptions counts. It is infinite if all have unbounded losses.
    """
    return min(
        math.sqrt(0.5 * count) * max(curve.largest_log_ratio.upper, -curve.smallest_log_ratio.lower, 0.0)
        for curve, count in part
    )


def _epsilon(curve: AbstractTradeOff, count: int, delta: float) -> float:
    share = delta / count / OUTWARD
    return count * max(curve.epsilon(share if share >= SMALLEST_SHARE else 0.0).upper, 0.0)


def _steps(part: Alternatives) -> int:
    """Return the number of steps of a part: that of its finest description."""
    return max(count for _, count in part)


def _delta(part: Alternatives, share: FloatArray) -> FloatArray:
    """Return upper bounds of delta of a part of which every step has the epsilons `share` >= 0, shape (n,).

    The smallest delta of the alternative descriptions counts.
    """
    steps = _steps(part)
    return np.min([count * curve.profile(share * (steps / count)).upper for curve, count in part], axis=0)


@final
class SumOfGuarantees(DelegatingCurve):
    """Trade-off curve of a composition `whole`, whose upper bounds are improved by `Guarantees` of its parts.

    Only enclosures with a relative width above 0.5 are improved: the sums are valid, but seldom tight.
    """

    is_capped = True

    def __init__(self, whole: AbstractTradeOff, present: Guarantees, absent: Guarantees | None = None) -> None:
        super().__init__(whole)
        self._present, self._absent = present, absent or present.reversed()

    @property
    @override
    def composed_of(self) -> Sequence[Alternatives]:
        return self._present.parts

    @override
    def reversed(self) -> AbstractTradeOff:
        return SumOfGuarantees(self.curve.reversed(), self._absent, self._present)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        points = self.curve.points(alpha)
        wide = (relative_widths(points.power) > WIDE) | (relative_widths(points.type_two_error) > WIDE)
        if not wide.any():
            return points
        most = self._present.log_power(alpha[wide])
        with np.errstate(divide="ignore"):
            missed = np.log(np.maximum(-np.expm1(most) - SLACK, 0.0))
        least = np.maximum(missed, self._absent.log_error(alpha[wide]))
        return CurvePoints(
            _met(points.type_two_error, wide, lower=least), _met(points.power, wide, upper=most), points.log_slope
        )

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        found = self.curve.power_at(rate)
        if found.relative_width() <= WIDE:
            return found
        most = self._present.log_power(np.array([rate]))
        return _met(EnclosureArray.of(found), np.array([True]), upper=most).at(0, found.evidence)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        profile = self.curve.profile(epsilon)
        wide = (relative_widths(profile) > WIDE) & (log_ends(profile)[1] > math.log(DELTAS[1]))
        return _met(profile, wide, upper=self._present.log_delta(epsilon[wide])) if wide.any() else profile

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        found = self.curve.epsilon(delta)
        if found.upper < math.inf and found.relative_width() <= WIDE:
            return found
        known, logs = self._present.stored
        most = float(known[logs <= math.log(delta)].min(initial=math.inf))
        if not is_spent():
            most = min(most, self._present.epsilon(delta))
        if most < found.lower - SLACK * (1 + found.lower):
            raise NumericalFailure("guarantees of the parts contradict a bound of the composition")
        return found if most >= found.upper else Enclosure(found.lower, max(most, found.lower), found.evidence)


def _met(
    bounds: EnclosureArray, where: BoolArray, lower: FloatArray | None = None, upper: FloatArray | None = None
) -> EnclosureArray:
    """Return `bounds`, narrowed at the k entries where `where` is true by further bounds of the same numbers.

    `lower` and `upper` bound ln of these numbers, shape (k,). None stands for no further bound on that side.
    Raises NumericalFailure where the bounds do not meet.
    """
    least, most = (end.copy() for end in log_ends(bounds))
    if lower is not None:
        least[where] = np.maximum(least[where], lower)
    if upper is not None:
        most[where] = np.minimum(most[where], upper)
    known = (least > -np.inf) & (least > most)
    if (least[known] > most[known] + SLACK * (1 + np.abs(most[known]))).any():
        raise NumericalFailure("guarantees of the parts contradict a bound of the composition")
    before = log_ends(bounds)
    changed = (least > before[0]) | (most < before[1])
    if not changed.any():
        return bounds
    met = EnclosureArray.from_logs(np.minimum(least, most), most)
    inside = EnclosureArray(
        np.maximum(met.lower, bounds.lower), np.minimum(met.upper, bounds.upper), met.log_lower, met.log_upper
    )
    return chosen(changed, inside, bounds)
