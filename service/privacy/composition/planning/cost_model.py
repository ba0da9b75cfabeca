"""Cost models of computing time: the costs of building a curve, of one number, and of a point of a list.

Estimates order queues, announce waiting times, and reject requests that exceed the limits with certainty. No bound
depends on them.

All costs are in microseconds of CPU time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, final

LIST_EVALUATIONS: Final = 2.0
"""Maximal number of evaluations of a list of points in addition to its points."""
SEARCH_EVALUATIONS: Final = 1.5
"""Evaluations of a search for an epsilon, or for a type II error at a rate next to 1."""
LIMIT_EVALUATIONS: Final = 0.1
"""Evaluations of the largest likelihood ratio."""
MU_POINTS: Final = 300
"""Number of points of the list that is searched for mu of Gaussian DP."""
POINTS_OF_BOTH, PROFILES_OF_BOTH = 2.5, 1.25
"""Ratios of the cost of the worst of two directions to the cost of one: for points, and for all other numbers.

The larger of two numbers suffices for all numbers but points.
"""
SEARCH_OF_MIXTURE: Final = (24.0, 1.0)
"""Evaluations of each component for one evaluation of a mixture, and for each point of a list."""
SEARCH_OF_SHARED_LEVELS: Final = (4.0, 8.0)
"""Evaluations, and points of the components, where all components are evaluated at equal levels."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingCosts:
    """Costs of single numbers of one trade-off curve, each in microseconds of CPU time.

    A single point of the curve costs `point`. A list of points costs at most `list_start`, plus `listed_point` for each
    point. A value of the privacy profile costs `profile`. A type II error at a rate 1 - a near 1 costs `complement`,
    and a limit of the curve, such as the largest loss, costs `limit`. A number at a tiny probability costs `tiny` times
    as much as other numbers.
    """

    point: float
    list_start: float
    listed_point: float
    profile: float
    epsilon: float
    complement: float
    gdp_mu: float
    limit: float
    tiny: float = 1.0

    def points(self, count: int, *, tiny: bool = False) -> float:
        """Return the cost of points that are evaluated together.

        Parameters
        ----------
        count : int
            Number of points.
        tiny : bool
            Whether a point has a tiny rate.

        Returns
        -------
        float
            Microseconds of CPU time.
        """
        each = self.point * (self.tiny if tiny else 1.0)
        return min(self.list_start, each * count) + self.listed_point * count


@final
@dataclass(frozen=True, slots=True)
class CostModel:
    """Cost of the numbers of an engine's trade-off curves, in microseconds of CPU time.

    Attributes
    ----------
    build : float
        Cost of making the curve of each direction, once.
    evaluate : float
        Cost of one number.
    per_point : float
        Cost of each point of a list.
    one_curve : bool
        Whether both directions (record added, record removed) have the same curve.
    reuse : float
        Cost of each further number of a request over the cost of the first, because contours and lattices are cached.
    search_mu : float
        Cost of the mu of Gaussian DP in addition to a list of points.
    limits_need_curve : bool
        Whether even the extreme likelihood ratios are known only after the curve is made.
    tilts : float
        Evaluations of a list of points of all magnitudes, or of one tiny number. A lattice has accurate numbers of few
        magnitudes, and others need lattices of their own, tilted towards small probabilities.
    """

    build: float
    evaluate: float
    per_point: float
    one_curve: bool = False
    reuse: float = 1 / 4
    search_mu: float = 0.0
    limits_need_curve: bool = False
    tilts: float = 1.0

    def readings(self, *, both: bool = False) -> ReadingCosts:
        """Return the costs (microseconds of CPU time) of single numbers of one direction, or of the worse if `both`."""
        points, profiles = (POINTS_OF_BOTH, PROFILES_OF_BOTH) if both and not self.one_curve else (1.0, 1.0)
        return ReadingCosts(
            point=points * self.evaluate,
            list_start=points * max(LIST_EVALUATIONS, self.tilts) * self.evaluate,
            listed_point=points * self.per_point,
            profile=profiles * self.evaluate,
            epsilon=profiles * SEARCH_EVALUATIONS * self.evaluate,
            complement=points * SEARCH_EVALUATIONS * self.evaluate,
            gdp_mu=profiles * (LIST_EVALUATIONS * self.evaluate + MU_POINTS * self.per_point + self.search_mu),
            limit=LIMIT_EVALUATIONS * self.evaluate,
            tiny=self.tilts,
        )

    def scaled(self, factor: float) -> CostModel:
        """Return the model with all costs multiplied by `factor`. The ratios `reuse` and `tilts` do not change."""
        return replace(
            self,
            build=factor * self.build,
            evaluate=factor * self.evaluate,
            per_point=factor * self.per_point,
            search_mu=factor * self.search_mu,
        )


@final
@dataclass(frozen=True, slots=True)
class Ceiling:
    """Largest costs, in microseconds of CPU time, of the numbers of a closed form for any arguments.

    Inexpensive closed forms are computed in the event loop. `build` is the cost of making a curve, and `reuse` the
    relative cost of each further number. `directed` holds the costs for one direction, and `worst` those for the worse
    of both, measured separately.
    """

    build: float
    directed: ReadingCosts
    worst: ReadingCosts
    reuse: ClassVar[float] = 1.0
    limits_need_curve: ClassVar[bool] = False

    @property
    def one_curve(self) -> bool:
        """Whether both directions (record added, record removed) have the same trade-off curve."""
        return self.directed is self.worst

    def readings(self, *, both: bool = False) -> ReadingCosts:
        """Return the largest costs of single numbers of one direction, or with `both` of the worse direction.

        Costs are in microseconds of CPU time.
        """
        return self.worst if both else self.directed


def summed(models: Sequence[CostModel]) -> CostModel:
    """Return the cost model of numbers that need several curves: the sum of the costs in `models`.

    Costs are in microseconds of CPU time.
    """
    evaluate = math.fsum(model.evaluate for model in models)
    return CostModel(
        math.fsum(model.build for model in models),
        evaluate,
        math.fsum(model.per_point for model in models),
        all(model.one_curve for model in models),
        max(model.reuse for model in models),
        math.fsum(model.search_mu for model in models),
        any(model.limits_need_curve for model in models),
        math.fsum(model.tilts * model.evaluate for model in models) / evaluate if evaluate > 0 else 1.0,
    )


def mixed(models: Sequence[CostModel], *, shared: bool) -> CostModel:
    """Return the cost model of a mixture, whose points are found by a search over likelihood-ratio levels.

    `models` are those of its components. `shared` is whether all components are evaluated at equal levels. Costs are in
    microseconds of CPU time.
    """
    parts = summed(models)
    (alone, listed), point = (
        (SEARCH_OF_SHARED_LEVELS, parts.per_point) if shared else (SEARCH_OF_MIXTURE, parts.evaluate)
    )
    return replace(parts, evaluate=alone * parts.evaluate, per_point=listed * point)
