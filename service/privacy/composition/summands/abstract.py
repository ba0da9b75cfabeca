"""Base classes of the summands of a run's log-moment function K(z) = ln E0 e^{zS}.

S is the sum of the privacy losses of the run (nats), and E0 the expectation under H0, the law without the record.
`Summand` is a number of equal steps. `TruncatedSummand` is their law, truncated at far jumps, which are the large
losses of a step that uses the record. `SummandOnContour` is the truncated law on one inversion contour Re z = theta. An
engine uses these classes for properties of a law.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.arrays import BoolArray, FloatArray, joined
from service.privacy.numerics.unit_circle import ComplexArray

_LARGEST_CHUNK: Final = 1_000_000
"""Array elements of one vectorised evaluation at several tilts."""


class RealCumulants(NamedTuple):
    """Log-moment function K(s) = ln E0 e^{sS} of a loss S and its derivatives at real tilts s, with error bounds.

    E0 is the expectation under H0, the law without the record. S is the loss of a whole run, or that of one summand.

    Attributes
    ----------
    value, first, second : arrays in the shape of the tilts
        K (nats), K' (the mean of S under the law tilted by e^{sS}, nats) and K'' (its variance, nats squared).
    error : array in the shape of the tilts
        Upper bound of |computed K - true K|, nats.
    discretisation : array in the shape of the tilts
        Part of `error` that is not rounding: quadrature and the truncation of the grid.
    """

    value: FloatArray
    first: FloatArray
    second: FloatArray
    error: FloatArray
    discretisation: FloatArray


def in_chunks(evaluate: Callable[[FloatArray], RealCumulants], tilts: FloatArray, size: int) -> RealCumulants:
    """Return the cumulants at all tilts, evaluated in chunks so that memory is bounded.

    Parameters
    ----------
    evaluate : callable
        Function that returns the cumulants at a list of tilts.
    tilts : (tilts,) or (tilts, runs)
        Real tilts.
    size : int
        Array elements of an evaluation at one tilt.
    """
    chunk = max(1, _LARGEST_CHUNK // size)
    pieces = [evaluate(tilts[i : i + chunk]) for i in range(0, len(tilts), chunk)]
    return pieces[0] if len(pieces) == 1 else joined(pieces)


@dataclass(frozen=True, slots=True)
class ValuesOnContour:
    """Differences K(theta + i t_k) - K(theta) at the heights t_k = k h, k = 0..nodes, with error bounds.

    K(z) = ln E0 e^{zS} is the log-moment function of the loss S under H0, theta the tilt of the contour, and h the
    distance of its nodes. `difference` and `error` have the shape (nodes + 1,), or (runs, nodes + 1) for separate runs,
    which are evaluated together but not composed. `error` bounds the relative error of the exponential: |e^{true -
    computed} - 1| <= e^error - 1.
    """

    difference: ComplexArray
    error: FloatArray


@dataclass(frozen=True, slots=True)
class RunScale:
    """Approximate properties of a whole run that choose the truncation and the nodes of each of its laws.

    `deviation` is the approximate standard deviation of the loss in nats, and `gaussian_steps` the number of sampled
    Gaussian steps and mixtures of Gaussians. `decays` is whether the transform of the run falls to 0 along a contour.
    No bound depends on them.
    """

    deviation: float
    gaussian_steps: float
    decays: bool


class Summand(ABC):
    """Several equal steps of a run, `count` of them. All losses are in nats and in the add direction.

    The loss L of one step is ln of the density with the record (H1) over the density without it (H0). The transform of
    a step is M(z) = E0 e^{zL}, with the expectation under H0. A subclass has the parameters of the law and supplies
    `rank`, `spread` and `loss_range`. The defaults of the other properties claim nothing special about the law.
    """

    count: int
    decays: ClassVar[bool] = True
    """Whether the transform of a step falls to 0 along a contour: its loss has a density."""
    is_atomic: ClassVar[bool] = False
    """Whether the loss has only atoms."""
    rank: ClassVar[int]
    """Number of the kind of law, by which summands are sorted in a run."""

    @property
    @abstractmethod
    def spread(self) -> float:
        """Approximate standard deviation of the privacy loss of one step, nats.

        No bound depends on this number.
        """

    @property
    @abstractmethod
    def loss_range(self) -> tuple[float, float]:
        """Infimum and supremum of the loss of all steps together, nats, rounded to nearest and not outwards."""

    @property
    def sampled_step(self) -> SampledStep | None:
        """Description of the steps for deformed contours, with exact parameters; None for steps without one.

        Poisson-sampled Gaussian steps have it, if a record is added or removed. If one record replaces another
        (mirrored mixtures), the shifts must be 0 and 1 and their weights exact.
        """
        return None

    @property
    def least_loss_error(self) -> float:
        """Upper bound of the error (nats) of the infimum in `loss_range` that errors of the law's weights cause."""
        return 0.0

    @property
    def log_prob_never_sampled(self) -> float:
        """ln of the probability that no step uses the record; -inf if none is known.

        It is a plain double. Bounds that use it must add slack for its rounding.
        """
        return -np.inf

    @property
    def gdp_mu_squared(self) -> float:
        """Square of the mu for which the pair N(0, 1), N(mu, 1) dominates all steps, even if each uses the record.

        The value is +inf if no such Gaussian pair is known.
        """
        return np.inf

    @property
    def is_symmetric(self) -> bool:
        """Whether the trade-off curve stays the same when both hypotheses are swapped."""
        return False

    @property
    def has_several_jumps(self) -> bool:
        """Whether far jumps, the large losses of a step that uses the record, have several sizes."""
        return False

    @property
    def sampled(self) -> float:
        """Approximate expected number of these steps that use the record.

        No bound depends on this number.
        """
        return float(self.count)

    @property
    def batch(self) -> tuple[Any, ...] | None:
        """Key that is equal for steps whose runs can be evaluated in one array; None for steps that never are."""
        return None

    @property
    def order(self) -> tuple[Any, ...]:
        """Sorting key of summands in a run; its first item is `rank`."""
        return (self.rank,)

    def joins(self, _group: Sequence[Any], /) -> bool:
        """Return whether these steps share the arrays of `_group`, earlier summands of the same kind.

        By default they do if their losses have no density, because such laws need no common grid.
        """
        return not self.decays

    @classmethod
    def last_nodes_are_negligible(
        cls, _groups: Sequence[tuple[Any, ...]], digits: FloatArray, theta: FloatArray, /
    ) -> BoolArray:
        """Return where the last node of each group's grid has negligible weight under the tilted law.

        Parameters
        ----------
        _groups : sequence of tuples of Summand
            Groups of summands of one kind.
        digits : (levels,) or (levels, groups)
            Truncation levels. About 10^-digits of the mass of both hypotheses is truncated.
        theta : (groups,)
            Tilt theta of each group: its law has the density e^{theta L} relative to H0.

        Returns
        -------
        (levels, groups)
            True where the weight is negligible. The choice of the level depends on the result, and no bound does.
        """
        return np.ones((len(digits), len(theta)), dtype=bool)


class TruncatedSummand(ABC):
    """Group of summands of one law, truncated at far jumps, the large losses of steps that use the record.

    `count` has the shape (parts,) and holds the number of steps of each part. M(z) = E0 e^{zL} is the transform of one
    step with loss L, and K(z) = sum of count * ln M(z) is that of all steps in logarithms. A subclass supplies
    `of_group`, `size` and `cumulants`. By default nothing is truncated.
    """

    count: FloatArray
    decays: ClassVar[bool] = True
    is_gaussian: ClassVar[bool] = False
    """Whether a Gaussian step dominates each of these steps. Contours may then be cut short."""

    @classmethod
    @abstractmethod
    def of_group(cls, group: tuple[Any, ...], digits: float, scale: RunScale, /) -> TruncatedSummand:
        """Return the law of the steps of one group, without at most about 10^-digits of the mass of H0 and of H1.

        H0 and H1 are the laws without and with the record. `scale` holds properties of the whole run that choose the
        nodes.
        """

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of array elements of one evaluation at a tilt, which is the unit of the engine's cost."""

    @property
    def contour_size(self) -> int:
        """Cost of one node of an inversion contour, in array elements, the unit of `size`."""
        return self.size

    @property
    def log_truncated_mass(self) -> tuple[FloatArray, FloatArray]:
        """Tuple of upper bounds of ln of the truncated mass under H0 and under H1, for all steps of each part.

        H0 and H1 are the laws without and with the record. Both arrays have the shape (parts,).
        """
        nothing = np.full(len(self.count), -np.inf)
        return nothing, nothing

    @abstractmethod
    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """Return the log-moment function K(s) = ln E0 e^{sS} of the sum S of these steps' losses, with K' and K''.

        `tilts` holds the real tilts s, shape (tilts,). All arrays of the result, and its bound of the absolute error of
        K, have that shape.
        """


class SummandOnContour(ABC):
    """Steps of a truncated summand on the inversion contour Re z = theta (the tilt), at the points z = theta + it.

    L is the loss of one step, E0 the expectation under H0 (without the record), and M(z) = E0 e^{zL} the transform of
    one step. K(z) is the sum of ln M(z) over all steps. A subclass sets the numbers of `origin`, and supplies `values`
    and `log_majorants`. The other defaults are those of a law without atoms and without a bound V/t.
    """

    _origin: tuple[Any, Any]

    @property
    def log_atoms(self) -> float:
        """ln of the probability that all losses are atoms of their laws, under the law tilted by e^{theta L}.

        L is the loss of one step, and theta the tilt of the contour Re z = theta. The transform of this part does not
        decay along the contour. The value is -inf for laws without atoms.
        """
        return -np.inf

    @property
    def last_height(self) -> float:
        """Height t from which the transform M(theta + it) of a step, without its atoms, falls at least like 1/t.

        M(z) is E0 e^{zL} for the loss L of the step, and theta the tilt of the contour.
        """
        return 0.0

    @property
    def origin(self) -> tuple[float, float]:
        """Tuple of K(theta), nats, evaluated to full precision, and a bound of its absolute error.

        K(theta) = ln E0 e^{theta S} is the log-moment function of the loss S of all steps at the real tilt theta.
        """
        value, error = self._origin
        return float(value), float(error)

    @abstractmethod
    def values(self, step: float, nodes: int) -> ValuesOnContour:
        """Return K(theta + i k step) - K(theta) for k = 0..nodes, shape (nodes + 1,), and bounds of the errors.

        K(z) = ln E0 e^{zS} is the log-moment function of the loss S of all steps, and theta the tilt of the contour.
        """

    @abstractmethod
    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(whole, single)`: upper bounds of ln |M(theta + it')/M(theta)| over t' >= t, at each height t.

        M(z) = E0 e^{zL} is the transform of a step with loss L. `whole` is the bound of the product over all steps.
        `single` is the smallest bound of one step with a density, and 0 without such a step. Both have the shape of
        `heights`. theta is the tilt of the contour.
        """

    def log_variation(self) -> float:
        """Return ln V with |M(theta + it)/M(theta)| <= V/t for every height t > 0 and one of the steps.

        M(z) = E0 e^{zL} is the transform of that step, whose loss is L. The result is +inf if no such step is known.
        theta is the tilt of the contour.
        """
        return np.inf

    def work(self, height: float) -> int:  # noqa: ARG002 - most have the same nodes at all heights
        """Return the additional cost of a node of a contour up to the imaginary part `height`, beside `contour_size`.

        The unit is one array element per node.
        """
        return 0
