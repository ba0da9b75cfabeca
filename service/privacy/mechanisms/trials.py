"""Numbers of trials of a selection: laws that do not depend on the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.domain import (
    FEWEST_TRIALS,
    MEAN_TRIALS,
    TRIAL_PROBABILITY,
    TRIAL_SHAPE,
    TRIALS,
    check_fields,
)

if TYPE_CHECKING:
    from service.privacy.trade_off.selection.trial_counts import TrialCounts


class AbstractTrials(ABC):
    """Frozen law of the number of trials, which a subclass gives by `counts`.

    `type` is its name in requests, and the fields have the names of requests.
    """

    __slots__ = ()
    type: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def fixed(self) -> int | None:
        """The number of trials if it is fixed, otherwise None."""
        return None

    @abstractmethod
    def counts(self) -> TrialCounts:
        """Return the law of the number of trials, with its generating function and derivatives."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FixedTrials(AbstractTrials):
    """A fixed number of trials (runs of a mechanism, of which the best output is released), known before the data."""

    type: ClassVar[str] = "fixed"
    count: Annotated[int, TRIALS]

    @property
    @override
    def fixed(self) -> int:
        return self.count

    @override
    def counts(self) -> TrialCounts:
        from service.privacy.trade_off.selection.trial_counts import BinomialCounts

        return BinomialCounts(self.count, 1.0)


class AtLeastOneTrial(AbstractTrials):
    """Law of a number of trials that is never 0, so that it is fixed if its mean is 1."""

    __slots__ = ()
    mean: Annotated[float, FEWEST_TRIALS]

    @final
    @property
    @override
    def fixed(self) -> int | None:
        return 1 if self.mean == 1 else None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeBinomialTrials(AtLeastOneTrial):
    """A negative binomial number of trials, truncated to at least 1, with a given mean.

    A trial is a run of a mechanism, and the best output of all trials is released. Shape 1 is the geometric law, and
    shape 0 the logarithmic law.
    """

    type: ClassVar[str] = "truncated_negative_binomial"
    mean: Annotated[float, FEWEST_TRIALS]
    shape: Annotated[float, TRIAL_SHAPE]

    @override
    def counts(self) -> TrialCounts:
        from service.privacy.trade_off.selection.trial_counts import LEAST_SHAPE, NegativeBinomialCounts

        shape = float(self.shape) if abs(self.shape) >= LEAST_SHAPE else 0.0
        return NegativeBinomialCounts(float(self.mean), shape)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GeometricTrials(AtLeastOneTrial):
    """A geometric number of trials, at least 1: after each trial the search ends with probability 1/mean."""

    type: ClassVar[str] = "geometric"
    mean: Annotated[float, FEWEST_TRIALS]

    @override
    def counts(self) -> TrialCounts:
        return NegativeBinomialTrials(mean=self.mean, shape=1.0).counts()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonTrials(AbstractTrials):
    """A Poisson number of trials (runs of a mechanism, of which the best output is released).

    Nothing is released without a trial.
    """

    type: ClassVar[str] = "poisson"
    mean: Annotated[float, MEAN_TRIALS]

    @override
    def counts(self) -> TrialCounts:
        from service.privacy.trade_off.selection.trial_counts import PoissonCounts

        return PoissonCounts(float(self.mean))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BinomialTrials(AbstractTrials):
    """A binomial number of trials: each of `count` possible trials is run with `probability`.

    The best output of the trials is released, and nothing if no trial is run.
    """

    type: ClassVar[str] = "binomial"
    count: Annotated[int, TRIALS]
    probability: Annotated[float, TRIAL_PROBABILITY]

    @property
    @override
    def fixed(self) -> int | None:
        return self.count if self.probability == 1 else None

    @override
    def counts(self) -> TrialCounts:
        from service.privacy.trade_off.selection.trial_counts import BinomialCounts

        return BinomialCounts(self.count, float(self.probability))


TRIAL_LAWS: dict[str, type[AbstractTrials]] = {
    kind.type: kind for kind in (FixedTrials, GeometricTrials, NegativeBinomialTrials, PoissonTrials, BinomialTrials)
}
"""Laws of the number of trials by their names in requests."""
