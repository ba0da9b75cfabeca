"""Base classes of the summands of a run's K = ln E0 e^{zS}.

`Summand` is a number of equal steps. `TruncatedSummand` is their law, truncated at far jumps of the loss.
`SummandOnContour` is the truncated law on one inversion contour Re z = theta. An engine uses these classes for
properties of a law.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.unit_circle import ComplexArray

_LARGEST_CHUNK: Final = 1_000_000
"""Array elements of one vectorised evaluation at several tilts."""


@dataclass(frozen=True, slots=True)
class RealCumulants:
    """K, K', K'' of a run, or of one summand, at real tilts, with error bounds; all arrays have the shape of the tilts.

    Attributes
    ----------
    value, first, second : arrays
        K, K' and K'' (nats and powers of nats).
    error : array
        Bound of |computed K - true K|.
    truncation : array
        Part of `error` that is not rounding: quadrature and the truncation of the grid.
    """

    value: FloatArray
    first: FloatArray
    second: FloatArray
    error: FloatArray
    discretisation: FloatArray

    def of(self, indices: slice) -> RealCumulants:
        """Return the cumulants at some of the tilts."""
        held = self.value, self.first, self.second, self.error, self.discretisation
        return RealCumulants(*(each[indices] for each in held))

    @staticmethod
    def concatenate(pieces: list[RealCumulants]) -> RealCumulants:
        """Return the cumulants at several lists of tilts as those of one list."""
        columns = zip(
            *((each.value, each.first, each.second, each.error, each.discretisation) for each in pieces), strict=True
        )
        return RealCumulants(*map(np.concatenate, columns))


def in_chunks(evaluate: Callable[[FloatArray], RealCumulants], tilts: FloatArray, size: int) -> RealCumulants:
    """Return the cumulants at all tilts, evaluated in chunks so that memory is bounded.

    Parameters
    ----------
    evaluate : callable
        Function that returns the cumulants at a list of tilts.
    tilts : (S,) or (S, runs)
        Real tilts.
    size : int
        Array elements of an evaluation at one tilt.
    """
    chunk = max(1, _LARGEST_CHUNK // size)
    pieces = [evaluate(tilts[i : i + chunk]) for i in range(0, len(tilts), chunk)]
    return pieces[0] if len(pieces) == 1 else RealCumulants.concatenate(pieces)


@dataclass(frozen=True, slots=True)
class ValuesOnContour:
    """K(theta + i t_k) - K(theta) at the nodes t_k = k h, shape (nodes + 1,), with error bounds.

    `error` bounds the relative error of the exponential: |e^{true - computed} - 1| <= e^error - 1.
    """

    difference: ComplexArray
    error: FloatArray


@dataclass(frozen=True, slots=True)
class RunScale:
    """Properties of the whole run that steer the truncation of one law."""

    deviation: float
    """Approximate standard deviation of the run's loss, from below; it steers the spacing of nodes."""
    gaussian_steps: float
    """Number of sampled Gaussian steps and of mixtures of Gaussians in the run."""
    decays: bool
    """Whether the transform of the run falls to 0 along a contour, even if Laplace steps do not."""


class Summand(ABC):
    """Several equal steps of a run. All losses are in nats and in the add direction."""

    count: int
    decays: ClassVar[bool] = True
    """Whether the transform of a step falls to 0 along a contour: its loss has a density."""
    is_atomic: ClassVar[bool] = False
    """Whether the loss has only atoms."""

    @property
    @abstractmethod
    def spread(self) -> float:
        """Approximate standard deviation of the loss of one step."""

    @property
    @abstractmethod
    def loss_range(self) -> tuple[float, float]:
        """Infimum and supremum of the loss of all steps together, within a few roundings."""

    @property
    def sampled_step(self) -> SampledStep | None:
        """Steps as deformed contours evaluate them, with exact parameters; None where no deformed contour serves."""
        return None

    @property
    def least_loss_error(self) -> float:
        """Bound of the error of the infimum that comes from errors of the law's weights, nats."""
        return 0.0

    @property
    def log_prob_never_sampled(self) -> float:
        """ln of the probability that no step uses the record; -inf if none is known. Bounds add slack for rounding."""
        return -np.inf

    @property
    def gdp_mu_squared(self) -> float:
        """mu^2 of the Gaussian step that dominates all steps together whatever the sampling; +inf without one."""
        return np.inf

    @property
    def is_symmetric(self) -> bool:
        """Whether swapped hypotheses have the same curve."""
        return False

    @property
    def has_several_jumps(self) -> bool:
        """Whether far jumps of the loss have several sizes."""
        return False

    @property
    def sampled(self) -> float:
        """Approximate number of the steps that use the record."""
        return float(self.count)

    @property
    def batch(self) -> tuple[Any, ...] | None:
        """Key of the steps whose runs are evaluated together; None for steps whose runs are evaluated alone."""
        return None

    @property
    @abstractmethod
    def order(self) -> tuple[Any, ...]:
        """Key of the order of summands in a run; the first item is a number for the law."""

    def joins(self, _group: Sequence[Any], /) -> bool:
        """Whether these steps share arrays with a group of the same law."""
        return False

    @classmethod
    def last_nodes_are_negligible(
        cls, _groups: Sequence[tuple[Any, ...]], digits: FloatArray, theta: FloatArray, /
    ) -> BoolArray:
        """Return where the last node of each group has negligible weight at its tilt, shape (levels, groups).

        There is one row for each truncation level in `digits`. The result steers; no bound depends on it.
        """
        return np.ones((len(digits), len(theta)), dtype=bool)


class TruncatedSummand(ABC):
    """Group of summands of one law, truncated at far jumps; `count` has shape (parts,)."""

    count: FloatArray
    decays: ClassVar[bool] = True
    is_gaussian: ClassVar[bool] = False
    """Whether a Gaussian step dominates each of these steps. Contours may then be cut short."""

    @classmethod
    @abstractmethod
    def of_group(cls, group: tuple[Any, ...], digits: float, scale: RunScale, /) -> TruncatedSummand:
        """Return the steps of one group without at most about 10^-digits of the mass of H0 and of H1."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Array elements of one evaluation at a tilt: the unit of the engine's cost."""

    @property
    def contour_size(self) -> int:
        """Cost of one node of a contour, in the same unit as `size`."""
        return self.size

    @property
    def log_truncated_mass(self) -> tuple[FloatArray, FloatArray]:
        """Upper bounds of ln of the mass of H0 and of H1 beyond the truncation, for all steps of each part."""
        nothing = np.full(len(self.count), -np.inf)
        return nothing, nothing

    @abstractmethod
    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """Return K, K', K'' of these steps at real tilts, shape (S,), with a bound of the error of K."""


class SummandOnContour(ABC):
    """Steps of a truncated summand on the contour Re z = theta."""

    @property
    def log_atoms(self) -> float:
        """ln of the mass of the atomic part of all steps, tilted by theta: the part whose transform does not decay."""
        return -np.inf

    @property
    def last_height(self) -> float:
        """Height from which the transform without its atomic part falls at least like 1/t."""
        return 0.0

    @property
    @abstractmethod
    def origin(self) -> tuple[float, float]:
        """K(theta) to full precision, and a bound of its error."""

    @abstractmethod
    def values(self, step: float, nodes: int) -> ValuesOnContour:
        """Return K(theta + i k step) - K(theta) for k = 0..nodes, and bounds of the errors."""

    @abstractmethod
    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(whole, single)`: upper bounds of ln |M(theta + it')/M(theta)| over t' >= t, at each height t.

        `whole` is the bound of the product over all steps. `single` is the smallest bound of one step with a density,
        and 0 without such a step. Both have the shape of `heights`.
        """

    def log_variation(self) -> float:
        """Return ln V with |M(theta + it)/M(theta)| <= V/t for every t > 0 and one of the steps; +inf without any."""
        return np.inf

    def work(self, height: float) -> int:  # noqa: ARG002 - most have the same nodes at all heights
        """Return array elements of one evaluation that a contour up to this height needs beside `contour_size`."""
        return 0
