"""Relative width that a request asks for, and the widths at which each engine stops.

The widths decide which contours, grids and engines are tried. Enclosures hold for every width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

DEFAULT_TOLERANCE: Final = 1e-6
"""Relative tolerance of a request without one. Coarser requests do not make the contour engine evaluate less."""

SECOND_ENGINE: Final = 1e-6
"""Finest width for which a second engine is used. A finer lattice costs seconds for every number."""

MIXTURE: Final = 1e-6
"""Finest width of the components of a mixture: a root search evaluates each of them many times."""

BRACKET: Final = (1e-4, 1e-6)
"""Finest widths of the attained composition, and of lattices, of a run between two theorems.

The gap between the theorems is wider than these widths. Lattices cost seconds each where they are needed.
"""

SMOOTHED_LOSSES: Final = 1e-5
"""Finest width of lattices for a run of listed losses off a lattice: finer ones cost several times as much."""

SMOOTHED_RESPONSES: Final = 1e-3
"""Finest width of lattices for a run that is smoothed with a little noise.

Lattices are hardly better than contours where losses are far apart.
"""

GLRT_STEPS: Final = 1e-6
"""Finest width of lattices of steps with unrelated directions: finer lattices cost ten seconds for every number."""

MEMBERSHIP_STEPS: Final = 1e-5
"""Finest width of lattices of steps against the membership adversary: every node needs tails of two chi-square laws."""

POPULATION: Final = 1e-3
"""Finest width of composed curves of a law of susceptibilities, whose intervals leave a wider gap."""

_STRAIGHT, _STRAIGHT_OF_MANY = 1e-9, 1e-8
"""Relative widths that neighbouring straight contours may improve.

In runs of many different steps the rounding of shared sums leaves the second width deep in the tail, on every contour.
"""

_MARGIN: Final = 5
"""Quotient of the tolerance and the width at which the search for a better deformed contour ends."""

_FINEST: Final = 1e-10
"""Finest tolerance of the contour engine: rounding hardly allows a finer one."""


@final
@dataclass(frozen=True, slots=True)
class Accuracy:
    """Relative width of enclosures that an engine aims at, `relative_tolerance` > 0.

    A width is (upper - lower)/upper of an enclosure. A width up to `straight_width` needs no further straight contours.
    `long_lists` is whether all numbers are evaluated in long lists.
    """

    relative_tolerance: float = DEFAULT_TOLERANCE
    straight_width: float = _STRAIGHT
    long_lists: bool = False

    @property
    def straight(self) -> float:
        """Relative width above which more straight contours (vertical lines) are evaluated, and enclosures intersected.

        The additional ones are neighbouring contours for points and profiles, and laws with less truncated mass for all
        numbers. The width is `straight_width`, and at most `deformed`; for long lists it is `deformed`.
        """
        return self.deformed if self.long_lists else min(self.straight_width, self.deformed)

    @property
    def straight_of_many(self) -> float:
        """Relative width above which more straight contours are evaluated, for runs of many different steps."""
        return self.deformed if self.long_lists else min(_STRAIGHT_OF_MANY, self.deformed)

    @property
    def deformed(self) -> float:
        """Relative width above which deformed contours are evaluated after all straight ones.

        The width is 1e-6, or the tolerance if that is below 2e-7, and at least 1e-10.

        Deformed contours aim at a fifth of this width, so that the default serves tolerances down to 2e-7.
        """
        if self.relative_tolerance >= DEFAULT_TOLERANCE / _MARGIN:
            return DEFAULT_TOLERANCE
        return max(self.relative_tolerance, _FINEST)

    @property
    def deformed_is_narrow(self) -> float:
        """Relative width of an enclosure at which the search for a better deformed contour ends.

        It is a fifth of `deformed`.
        """
        return self.deformed / _MARGIN

    @property
    def deformed_error(self) -> float:
        """Error of quadrature and truncation that a deformed contour may have, relative to the number evaluated.

        It is a hundredth of `deformed`.
        """
        return self.deformed / 100


DEFAULT_ACCURACY: Final = Accuracy()
