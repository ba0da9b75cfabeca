"""Numbers printed in texts, compared with the enclosures that they stand for.

A text is consumed: every number belongs to a pattern that says what it means, and no number may be left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

NUMBER: Final = r"(-?\d+(?:\u00a0\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?)"
PERCENT: Final = rf"{NUMBER}\u00a0%"
WASTE: Final = Decimal("0.0101")
"""Relative loss that rounding to three digits may cause."""
Check = Callable[[str], None]


def read(text: str) -> Decimal:
    """Parse a number as texts print it."""
    return Decimal(text.replace("\u00a0", ""))


def up(truth: float, scale: int = 1) -> Check:
    """Return a check that a printed upper bound is not below the exact value `truth`, and not far above."""

    def check(text: str) -> None:
        exact, printed = Decimal(truth) * scale, read(text)
        assert exact <= printed <= exact + WASTE * abs(exact), f"{text} for an upper bound of {exact}"

    return check


def down(truth: float, scale: int = 1) -> Check:
    """Return a check that a printed lower bound is not above the exact value `truth`, and not far below."""

    def check(text: str) -> None:
        exact, printed = Decimal(truth) * scale, read(text)
        assert exact - WASTE * abs(exact) <= printed <= exact, f"{text} for a lower bound of {exact}"

    return check


def given(sent: float, scale: int = 1) -> Check:
    """Return a check that a printed number has all digits of the number `sent` by the client."""

    def check(text: str) -> None:
        assert read(text) == Decimal(repr(sent)) * scale, f"{text} for {sent!r}"

    return check


def percent_up(truth: float) -> Check:
    """Return a check of an upper bound in percent."""
    return up(truth, 100)


def percent_down(truth: float) -> Check:
    """Return a check of a lower bound in percent."""
    return down(truth, 100)


def percent_exact(sent: float) -> Check:
    """Return a check of a sent share in percent."""
    return given(sent, 100)


class Printed:
    """A text whose numbers are removed as they are checked. Wrapped lines are joined."""

    def __init__(self, text: str) -> None:
        self.left = re.sub(r"[ \n]+", " ", text)

    def without(self, known: Iterable[str]) -> None:
        """Remove texts that are checked elsewhere or come from the core, longest first."""
        for each in sorted(set(filter(None, known)), key=len, reverse=True):
            self.left = self.left.replace(re.sub(r"[ \n]+", " ", each), " ")

    def take(self, pattern: str, *checks: Check) -> int:
        """Check the groups of every match of `pattern` in the text, remove the matches, and return their number."""
        found = list(re.finditer(pattern, self.left))
        for each in found:
            assert len(each.groups()) == len(checks), pattern
            for text, check in zip(each.groups(), checks, strict=True):
                check(text)
        self.left = re.sub(pattern, " ", self.left)
        return len(found)

    def take_in_order(self, pattern: str, checks: Sequence[Check]) -> None:
        """Check the matches of a pattern with one group, each with its own check."""
        found = re.findall(pattern, self.left)
        assert len(found) == len(checks), (pattern, found)
        for text, check in zip(found, checks, strict=True):
            check(text)
        self.left = re.sub(pattern, " ", self.left)

    def check_no_number_left(self) -> None:
        """Check that no number is left."""
        assert not re.search(r"\d", self.left), self.left


def ends(number: Any) -> tuple[float, float]:
    """Return the lower and the upper bound of a number of a response, or of its fields."""
    lower, upper = (number["lower"], number["upper"]) if isinstance(number, dict) else (number.lower, number.upper)
    assert lower is not None
    assert upper is not None
    assert not math.isnan(upper)
    return float(lower), float(upper)
