"""Protocol of inversion contours, which give three integrals at any threshold, enclosed or approximate.

S is the loss of a run, c a threshold in nats, and theta the real number at which a contour crosses the axis (tilt). P0
and P1 are the laws under both hypotheses, and delta is the privacy profile. The integrals are

    I0(c) = P0(S > c),  or  -P0(S <= c) for theta < 0;
    I1(c) = P1(S > c),  or  -P1(S <= c) for theta < 1;
    ID(c) = delta(c) (theta > 1),  delta(c) - 1 (0 < theta < 1),  or  delta(c) - 1 + e^c (theta < 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from service.privacy.numerics.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Integrals:
    """Enclosures of the integrals I0, I1, ID at C thresholds c: `e^{log_scale} [lower, upper]`.

    I0 and I1 are tail probabilities of the loss under H0 and H1, and ID is the profile. Each lacks a known term (1, e^c
    or both), which depends on whether the contour lies left or right of the poles 0 and 1.

    Attributes
    ----------
    log_scale, lower, upper : (3, C)
        ln of the scales, and bounds of the integrals divided by their scales. The rows are I0, I1, ID.
    density : (C,)
        Approximate density of the loss under H0, on the scale of I0.
    """

    log_scale: FloatArray
    lower: FloatArray
    upper: FloatArray
    density: FloatArray


class InversionContour(Protocol):
    """Contour that crosses the real axis at `theta`, laid out for thresholds near `center` (nats).

    The loss weighted by e^{theta S} (*tilted* loss) has about the standard deviation `deviation`, on which no bound
    depends. For deformed contours `deviation` is that of the untilted loss without rare large losses of a step. The
    object may also stand for as many contours as there are thresholds, all on the same side of the poles 0 and 1.
    `theta`, `center` and `deviation` are then arrays (thresholds,), and each request has a threshold for each contour.
    """

    @property
    def theta(self) -> float | FloatArray:
        """Tilt theta: the real number at which the contour crosses the axis, or an array (C,) for C contours."""
        ...

    @property
    def leftmost(self) -> float:
        """Smallest real number at which one of the contours crosses the axis."""
        ...

    @property
    def center(self) -> float | FloatArray:
        """Threshold of the loss in nats for which the contour is laid out, or an array (C,) for C contours."""
        ...

    @property
    def deviation(self) -> float | FloatArray:
        """Approximate standard deviation of the loss S weighted by e^{theta S}, in nats.

        It is an array (C,) for C contours. theta is the tilt of the contour. Deformed contours have the deviation of
        the untilted loss without rare large losses of a step. No bound depends on this number.
        """
        ...

    @property
    def score_tables(self) -> dict[int, tuple[FloatArray, FloatArray, FloatArray]]:
        """Tables from which the search for thresholds begins, cached because every request needs them.

        The key is the row of the integral (0: I0, 2: ID). A table has normal scores, thresholds, and derivatives of
        thresholds by the score.
        """
        ...

    def integrals(self, thresholds: FloatArray) -> Integrals:
        """Return enclosures of both tails of the loss and of the profile at thresholds c (nats), shape (thresholds,).

        They are the integrals I0, I1, ID of `Integrals`.
        """
        ...

    def approximate(self, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(sums, log_scale)`: approximations sums e^{log_scale} without error bounds.

        The four rows are the integrals I0, I1, ID of `Integrals` and the density of the loss under H0, each at the
        thresholds, shape (4, thresholds).
        """
        ...
