"""Estimates of computing time: three numbers of an engine, in microseconds of CPU.

Estimates order queues, quote waits and refuse what surely exceeds the limits. No bound rests on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, final

LIST_EVALUATIONS: Final = 2.0
"""Evaluations that a list of points takes beside its points, at most."""
SEARCH_EVALUATIONS: Final = 1.5
"""Evaluations that an epsilon takes, or a type II error at a rate next to 1."""
LIMIT_EVALUATIONS: Final = 0.1
"""The same for the largest likelihood ratio."""
MU_POINTS: Final = 300
"""Points of the list that mu of Gaussian DP is searched in."""
POINTS_OF_BOTH, PROFILES_OF_BOTH = 2.5, 1.25
"""Ratios of the cost of the worst of two directions to the cost of one: of points, and of all else, for which the
larger one of two numbers suffices.
"""
SEARCH_OF_MIXTURE: Final = (12.0, 0.5)
"""Evaluations of each component that one evaluation of a mixture takes, and each point of a list."""
SEARCH_OF_SHARED_LEVELS: Final = (4.0, 8.0)
"""The same where all components are evaluated at the same levels: evaluations, and points of the components."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingCosts:
    """Costs of the readings of one curve, each in microseconds."""

    point: float
    """Power or type II error at one rate."""
    list_start: float
    """Largest cost of a list of points beside the cost of its points."""
    listed_point: float
    profile: float
    """delta at an epsilon."""
    epsilon: float
    complement: float
    """The type II error at 1 - a, for an a whose complement is not a number."""
    gdp_mu: float
    limit: float
    """The largest or smallest log-likelihood ratio, and the mass beyond all of them."""

    def points(self, count: int) -> float:
        """Return the cost of `count` points that are read together."""
        return min(self.list_start, self.point * count) + self.listed_point * count


@final
@dataclass(frozen=True, slots=True)
class CostModel:
    """Cost of the readings of an engine's curves, in microseconds.

    `build`: once for every direction that is read. `evaluate`: one number. `per_point`: each point of a list.
    `one_curve`: whether both directions have the same curve. `reuse`: share of its cost that each further reading of a
    request costs, as contours and lattices are kept. `search_mu`: what mu of Gaussian DP costs besides its list.
    """

    build: float
    evaluate: float
    per_point: float
    one_curve: bool = False
    reuse: float = 1 / 4
    search_mu: float = 0.0

    def readings(self, *, both: bool = False) -> ReadingCosts:
        """Return the costs of readings of one direction, or of the worst of both."""
        points, profiles = (POINTS_OF_BOTH, PROFILES_OF_BOTH) if both and not self.one_curve else (1.0, 1.0)
        return ReadingCosts(
            point=points * self.evaluate,
            list_start=points * LIST_EVALUATIONS * self.evaluate,
            listed_point=points * self.per_point,
            profile=profiles * self.evaluate,
            epsilon=profiles * SEARCH_EVALUATIONS * self.evaluate,
            complement=points * SEARCH_EVALUATIONS * self.evaluate,
            gdp_mu=profiles * (LIST_EVALUATIONS * self.evaluate + MU_POINTS * self.per_point + self.search_mu),
            limit=LIMIT_EVALUATIONS * self.evaluate,
        )

    def scaled(self, factor: float) -> CostModel:
        """Return the model with all costs times the factor."""
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
    """Largest costs of all readings of a closed form, over the whole range of its arguments.

    They decide what the event loop computes itself: as `CostModel`, with `directed` and `worst` measured one by one.
    """

    build: float
    directed: ReadingCosts
    worst: ReadingCosts
    reuse: ClassVar[float] = 1.0

    @property
    def one_curve(self) -> bool:
        """Whether both directions have the same curve."""
        return self.directed is self.worst

    def readings(self, *, both: bool = False) -> ReadingCosts:
        """Return the largest costs of readings of one direction, or of the worst of both."""
        return self.worst if both else self.directed


def summed(models: Sequence[CostModel]) -> CostModel:
    """Return the cost model of curves that are all evaluated for each number."""
    return CostModel(
        math.fsum(model.build for model in models),
        math.fsum(model.evaluate for model in models),
        math.fsum(model.per_point for model in models),
        all(model.one_curve for model in models),
        max(model.reuse for model in models),
        math.fsum(model.search_mu for model in models),
    )


def mixed(models: Sequence[CostModel], *, shared: bool) -> CostModel:
    """Return the cost model of a mixture: every point is searched for by levels of the likelihood ratio.

    `shared`: whether all components are evaluated at the same levels.
    """
    parts = summed(models)
    (alone, listed), point = (
        (SEARCH_OF_SHARED_LEVELS, parts.per_point) if shared else (SEARCH_OF_MIXTURE, parts.evaluate)
    )
    return replace(parts, evaluate=alone * parts.evaluate, per_point=listed * point)
