"""Trade-off curve of a mixture: one of several curves is drawn, and the attacker learns which one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, reduce
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF, rounded
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import CLOSED_FORM, AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.bracketed import map_bracket
from service.privacy.trade_off.combinators.data_processing_bound import DataProcessingBound
from service.privacy.trade_off.combinators.extreme_of import map_extremes
from service.privacy.trade_off.combinators.extremes import largest
from service.privacy.trade_off.combinators.intersected import MOST_PLACES, Intersected
from service.privacy.trade_off.combinators.sum_of_guarantees import SumOfGuarantees
from service.privacy.trade_off.combinators.symmetrised import Symmetrised
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root
from service.privacy.trade_off.enclosed.logs import log, log_down, log_ends
from service.privacy.trade_off.enclosed.weighted_sums import WeightedSums, log_sum
from service.privacy.trade_off.mixture.points import LogPoints, MixturePoints
from service.privacy.trade_off.mixture.shared_levels import LogProfile, SharedLevels
from service.privacy.trade_off.pair import TradeOffPair, brackets_of

CHUNK: Final = 128
"""Count of rates in one search. More rates would only need more memory."""
LOOSE: Final = 1e-10
"""Width of logarithms above which the profile is evaluated too."""
WIDE: Final = 1e-6
"""Width of logarithms above which the profile is evaluated too, for parts of other engines than closed forms."""
CLOSE: Final = 1e-7
"""Relative width of the bounds of an epsilon from which no root is searched for."""
FAINT: Final = 1e-12
"""Share of delta below which the upper bound of a profile needs no better value."""
LARGEST_EPSILON: Final = 1e300
BOUNDING: Final = (Evidence.EXACT, Evidence.PROVED, Evidence.CERTIFIED)


def mixed(weights: Sequence[Fraction], pairs: Sequence[TradeOffPair], source: str, reason: str) -> TradeOffPair:
    """Return the curves of a mechanism that is drawn with given weights, direction by direction.

    Parameters
    ----------
    weights : sequence of Fraction
        Positive weights with the exact sum 1.
    pairs : sequence of TradeOffPair
        Curves of the mechanisms, from which one is drawn. The result keeps their sources and notes.
    source, reason : str
        The theorem, and the note of the result.

    Returns
    -------
    TradeOffPair
        Curves of the mixture in both directions.
    """

    def mix(*curves: AbstractTradeOff) -> AbstractTradeOff:
        return MixtureTradeOff(list(zip(weights, curves, strict=True)))

    def mix_extremes(*curves: AbstractTradeOff) -> AbstractTradeOff:
        return map_extremes(mix, *curves)

    add = map_bracket(mix_extremes, *(part.add for part in pairs))
    symmetric = all(part.add is part.remove for part in pairs)
    remove = add if symmetric else map_bracket(mix_extremes, *(part.remove for part in pairs))
    notes = dict.fromkeys(note for part in pairs for note in part.notes)
    sources = dict.fromkeys((source, *(part.source for part in pairs)))
    return TradeOffPair(add, remove, "; ".join(sources), (*notes, reason), bracket=brackets_of(pairs))


@final
class MixtureTradeOff(AbstractTradeOff):
    """Trade-off curve f(alpha) = min of sum w_i f_i(alpha_i) over all alpha_i with sum w_i alpha_i = alpha.

    Notes
    -----
    Profiles mix linearly: delta(eps) = sum w_i delta_i(eps) for every real eps. At the minimum the curves of all parts
    have one common slope, so that f is not the average of the f_i at equal alpha. `points.py` encloses this minimum.

    Where slopes of parts have wide enclosures, the profile gives further bounds for every c: power(alpha) <= delta(c) +
    e^c alpha, f(alpha) >= 1 - delta(c) - e^c alpha, and f(alpha) >= e^c (1 - alpha - delta_swapped(-c)) with the
    profile of the swapped hypotheses.

    For parts in closed form the relative width is 1e-11 for alpha >= 1e-12, and 1e-9 down to alpha = 1e-290 (tested).
    For other parts the width is that of the parts.

    References
    ----------
    Leemann et al. 2023 (Gaussian membership inference privacy), Definition 4.1 (stochastic composition).
    """

    def __init__(self, parts: Sequence[tuple[Fraction, AbstractTradeOff]]) -> None:
        """Set up the mixture of the (weight, curve) pairs in `parts`; weights are positive and have the exact sum 1."""
        if not parts or sum(weight for weight, _ in parts) != 1:
            raise NumericalFailure("the weights of a mixture do not sum to 1")
        self.parts = tuple(parts)
        self.searches_points = True
        self.evidence = Evidence.weakest(*(curve.evidence for _, curve in parts))
        self.method = next(curve.method for _, curve in parts if curve.evidence is self.evidence)
        self._sums = WeightedSums([weight for weight, _ in parts])
        self._singular = Enclosure(
            rounded(_mean(parts, lambda curve: curve.singular_power.lower), -1),
            rounded(_mean(parts, lambda curve: curve.singular_power.upper), 1),
            self.evidence,
        )

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return reduce(largest, (curve.largest_log_ratio for _, curve in self.parts))

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self._singular

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        """Smallest mu for mu-GDP: infinite if H1 has mass outside H0, otherwise None, as no closed form is known."""
        return Enclosure.point(math.inf) if self._singular.lower > 0 else None

    @override
    def reversed(self) -> AbstractTradeOff:
        return self._reversed

    @cached_property
    def _reversed(self) -> MixtureTradeOff:
        return MixtureTradeOff([(weight, curve.reversed()) for weight, curve in self.parts])

    @cached_property
    def _searched(self) -> MixturePoints:
        """Object that searches points of the mixture on curves of parts with inexpensive points."""
        return MixturePoints([curve for _, curve in self.parts], self._sums, self._singular)

    @cached_property
    def _shared(self) -> SharedLevels | None:
        """Object that searches points of the mixture on all parts at equal log slopes, or None.

        None means that the points of all parts are inexpensive, so that another search serves.
        """
        if all(curve.method == CLOSED_FORM for _, curve in self.parts) and not self._has_only_profiles:
            return None
        parts = [(weight, _first_engine(curve)) for weight, curve in self.parts]
        ahead, back = MixtureTradeOff(parts), MixtureTradeOff([(weight, curve.reversed()) for weight, curve in parts])
        profiles: tuple[LogProfile, LogProfile] = (
            lambda c: log_ends(ahead.profile(c)),
            lambda c: log_ends(back.profile(c)),
        )
        if self._has_only_profiles:
            return SharedLevels.of_profile(ahead, *profiles)
        return SharedLevels.of_parts([curve for _, curve in parts], self._sums, *profiles)

    @cached_property
    def _has_only_profiles(self) -> bool:
        """Whether some curve of the mixture is known by its privacy profile only, so that its points need a search."""
        return any(curve.has_only_profile for _, curve in self.parts)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        profiles = [curve.profile(epsilon) for _, curve in self.parts]
        logs = [log_ends(profile) for profile in profiles]
        lower = self._sums.linear(np.stack([profile.lower for profile in profiles]), -1)
        upper = self._sums.linear(np.stack([profile.upper for profile in profiles]), 1)
        return EnclosureArray(
            np.minimum(lower, 1.0),
            np.minimum(upper, 1.0),
            self._sums.logs(np.stack([low for low, _ in logs]), lower, -1),
            self._sums.logs(np.stack([high for _, high in logs]), upper, 1),
        )

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        if self.evidence.is_certain and any(curve.method != CLOSED_FORM for _, curve in self.parts):
            low, high = self._epsilon_bounds(delta)
            if high < math.inf:
                if high - low <= CLOSE * high:
                    return Enclosure(low, high, self.evidence)
                return decreasing_root(self._profile_formula, delta, low, high, self.evidence)
        alone = [curve.epsilon(delta) for _, curve in self.parts]
        least, most = min(each.lower for each in alone), max(each.upper for each in alone)
        if math.isinf(most):
            # The profile of one part stays above delta, but that of the mixture may fall to delta.
            most, factor = max(2 * least, 1.0), 2.0
            while self.profile_at(most).upper > delta:
                most *= factor
                factor *= 2
                if not most < LARGEST_EPSILON or is_spent():
                    return Enclosure(least, math.inf, self.evidence)
        return decreasing_root(self._profile_formula, delta, least, most, self.evidence)

    def _epsilon_bounds(self, delta: float) -> tuple[float, float]:
        """Return a lower and an upper bound of epsilon(delta) in nats, from epsilons of single parts.

        The upper bound is infinite if the profiles of the other parts are too large. Parts whose epsilon has an upper
        bound below the other epsilons are not evaluated, because they may be expensive.

        Notes
        -----
        w_i delta_i <= delta, so every eps_i(delta/w_i) is a lower bound. Let e be the largest of them, of part i, and r
        the sum of w_j delta_j(e) over the other parts. Profiles fall, so the larger of e and eps_i((delta - r)/w_i) is
        an upper bound. Both bounds are close if one part determines the tail of the mixture.
        """
        shares = [min(rounded(Fraction(delta) / weight, 1), 1.0) for weight, _ in self.parts]
        caps = [
            min(curve.largest_log_ratio.upper, curve.epsilon_cap(share) if 0 < share < 1 else math.inf)
            for share, (_, curve) in zip(shares, self.parts, strict=True)
        ]
        low, chosen = 0.0, int(np.argmax(caps))
        for at in sorted(range(len(caps)), key=lambda at: -caps[at]):
            if shares[at] < 1 and caps[at] > low:
                least = self.parts[at][1].epsilon(shares[at]).lower
                low, chosen = (least, at) if least > low else (low, chosen)
        if math.isinf(low):
            return low, low
        left = Fraction(delta)
        for at, (weight, curve) in enumerate(self.parts):
            if at != chosen:
                cap = curve.profile_cap(low)
                left -= weight * Fraction(cap if cap <= FAINT * delta else min(curve.profile_at(low).upper, cap))
        weight, curve = self.parts[chosen]
        share = rounded(left / weight, -1) if left > 0 else 0.0
        return low, max(low, curve.epsilon(min(share, 1.0)).upper) if share > 0 else math.inf

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        if self._has_only_profiles and self._shared is not None:
            return self._shared.points(alpha)
        with np.errstate(all="ignore"):
            read = [self._points(alpha[start : start + CHUNK]) for start in range(0, len(alpha), CHUNK)]
        error, power, slope = (np.concatenate(rows, axis=1) for rows in zip(*read, strict=True))
        return CurvePoints(
            EnclosureArray.from_logs(error[0], error[1]),
            EnclosureArray.from_logs(power[0], power[1]),
            EnclosureArray(slope[0], slope[1]),
        )

    def _points(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return bounds of ln f, of ln power and of the log slope at the rates `alpha`; three arrays of shape (2, n).

        f is the type II error.
        """
        shared = self._shared
        read = self._searched.read(alpha) if shared is None else shared.read(alpha)
        error, power = read.error, read.power
        if self.evidence not in BOUNDING:
            # Bounds without certain evidence may be out of order.
            error, power = np.sort(error, axis=0), np.sort(power, axis=0)
        close = LOOSE if shared is None else WIDE
        loose = (error[1] - error[0] > close) | (power[1] - power[0] > close)
        if loose.any() and not is_spent():
            self._tighten(alpha, read, error, power, loose)
        if (error[0] > error[1]).any() or (power[0] > power[1]).any():
            raise NumericalFailure("the points of a mixture are out of order")
        return error, power, read.slope

    def _tighten(
        self, alpha: FloatArray, read: LogPoints, error: FloatArray, power: FloatArray, loose: FloatArray
    ) -> None:
        """Narrow the bounds `error` of ln f and `power` of ln power at the rates `alpha`, where `loose` is true.

        f is the type II error. `error` and `power`, shape (2, n), are changed in place. The bounds follow from profiles
        at the log slopes `read`, and from points of all parts at equal rates.
        """
        for levels in read.levels:
            at = np.flatnonzero(loose & np.isfinite(levels))
            if not at.size:
                continue
            c, rate = levels[at], alpha[at]
            profile, mirrored = self.profile(c), self._reversed.profile(-c)
            log_lost = c + log(rate)
            slack = 4 * FUNCTION_ERROR * (1 + np.abs(c) + np.abs(log_lost))
            bound = log_sum(log_ends(profile)[1], log_lost + slack, 1)
            gap = 1 - profile.upper - np.exp(log_lost + slack) - 8 * UNIT_ROUNDOFF
            flipped = (1 - rate) - mirrored.upper - 4 * UNIT_ROUNDOFF
            below = np.maximum(log_down(np.maximum(gap, 0.0)), log_down(np.maximum(flipped, 0.0)) + c - slack)
            power[1, at] = np.maximum(np.minimum(power[1, at], bound), power[0, at])
            error[0, at] = np.minimum(np.maximum(error[0, at], below), error[1, at])
        at = np.flatnonzero(loose)
        if self._shared is not None and len(at) <= MOST_PLACES:
            points = [curve.points(alpha[at]) for _, curve in self.parts]
            least = self._sums.of_logs(np.stack([log_ends(part.power)[0] for part in points]), -1)
            most = self._sums.of_logs(np.stack([log_ends(part.type_two_error)[1] for part in points]), 1)
            power[0, at] = np.minimum(np.maximum(power[0, at], least), power[1, at])
            error[1, at] = np.maximum(np.minimum(error[1, at], most), error[0, at])


def _first_engine(curve: AbstractTradeOff) -> AbstractTradeOff:
    """Return the curve that the first engine behind `curve` evaluates.

    Second engines and lower bounds from parts are removed, because they are too expensive for a search.
    """
    if isinstance(curve, DataProcessingBound | SumOfGuarantees):
        return _first_engine(curve.curve)
    if isinstance(curve, Symmetrised):
        return Symmetrised(_first_engine(curve.first), _first_engine(curve.second))
    return curve.curve if isinstance(curve, Intersected) else curve


def _mean(parts: Sequence[tuple[Fraction, AbstractTradeOff]], reading: Callable[[AbstractTradeOff], float]) -> Fraction:
    return sum((weight * Fraction(reading(curve)) for weight, curve in parts), Fraction(0))
