"""AnswerComparison of an archived answer with the same request computed again: numbers, enclosures and texts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast, final

COUNTS: Final = ("readings",)
"""Members that count evaluations. They say how a number was computed, and may change without it."""
DIGEST_PREFIX: Final = "sha256:"
ENDS: Final = ("", "_log10")
"""Suffixes of the members `lower` and `upper` of an enclosure."""

Leaf: TypeAlias = "float | str | bool | None"
Pair: TypeAlias = tuple[float, float]


@final
@dataclass(slots=True)
class AnswerComparison:
    """Differences between two answers to one request. Names are JSON pointers.

    `numbers` and `enclosures` count what both answers have. `moved` has the relative change of every number that
    differs. `apart` has both enclosures of every number whose enclosures do not meet. `verdicts` and `texts` name other
    members that differ, or that only one answer has.
    """

    numbers: int = 0
    enclosures: int = 0
    moved: dict[str, float] = field(default_factory=dict[str, float])
    apart: dict[str, tuple[Pair, Pair]] = field(default_factory=dict[str, tuple[Pair, Pair]])
    verdicts: dict[str, tuple[Leaf, Leaf]] = field(default_factory=dict[str, tuple[Leaf, Leaf]])
    texts: list[str] = field(default_factory=list[str])

    @property
    def is_equal(self) -> bool:
        """Whether no number, verdict or text differs."""
        return not (self.moved or self.apart or self.verdicts or self.texts)

    @property
    def contradicts(self) -> bool:
        """Whether two enclosures of one number do not meet, or a verdict is another one.

        A moved number whose enclosures meet is no contradiction.
        """
        return bool(self.apart or self.verdicts)

    def sentence(self) -> str:
        """Return one sentence that says what differs between both answers, and whether their enclosures meet."""
        if self.is_equal:
            return f"equal: {count(self.numbers, 'number')}, {count(self.enclosures, 'enclosure')}"
        parts: list[str] = []
        if self.moved:
            at = max(self.moved, key=self.moved.__getitem__)
            size = f"by at most {self.moved[at]:.2g} of its size, at {at}"
            parts.append(f"{len(self.moved)} of {count(self.numbers, 'number')} moved, {size}")
        if self.texts:
            parts.append(
                f"{count(len(self.texts), 'text or member', 'texts or members')} differ, first at {self.texts[0]}"
            )
        for at, (before, now) in list(self.verdicts.items())[:1]:
            parts.append(f"{count(len(self.verdicts), 'verdict')} changed, first at {at}: was {before}, is {now}")
        met = f"{self.enclosures - len(self.apart)} of {count(self.enclosures, 'enclosure')} meet"
        for at, (before, now) in list(self.apart.items())[:1]:
            met += f"; at {at} the archived one is [{before[0]!r}, {before[1]!r}], now it is [{now[0]!r}, {now[1]!r}]"
        return "; ".join((*parts, met))


def count(number: int, name: str, plural: str = "") -> str:
    """Return a number with the name of what it counts, such as "3 numbers".

    `plural` is the plural of `name`, if it is irregular.
    """
    return f"{number} {name}" if number == 1 else f"{number} {plural or name + 's'}"


def compare_answers(before: dict[str, Any], now: dict[str, Any]) -> AnswerComparison:
    """Compare an earlier answer (`before`) and a present one (`now`) to one request, both parsed from JSON.

    Digests and engine versions are left out, because they name the versions, and so are counts of evaluations.
    """
    found = AnswerComparison()
    old, new = dict(_leaves(before, "")), dict(_leaves(now, ""))
    for at in dict.fromkeys((*old, *new)):
        if at not in old or at not in new:
            found.texts.append(at)
            continue
        _compare_leaves(found, at, old[at], new[at])
    enclosures, others = dict(_enclosures(before, "")), dict(_enclosures(now, ""))
    for at in enclosures.keys() & others.keys():
        found.enclosures += 1
        first, second = enclosures[at], others[at]
        if max(first[0], second[0]) > min(first[1], second[1]):
            found.apart[at] = first, second
    return found


def _compare_leaves(found: AnswerComparison, at: str, before: Leaf, now: Leaf) -> None:
    is_number = isinstance(before, float) and isinstance(now, float)
    found.numbers += is_number
    if before == now:
        return
    if isinstance(before, float) and isinstance(now, float):
        size = max(abs(before), abs(now))
        found.moved[at] = abs(before - now) / size if math.isfinite(size) else math.inf
    elif at.rpartition("/")[2] == "verdict":
        found.verdicts[at] = before, now
    else:
        found.texts.append(at)


def _leaves(value: Any, at: str) -> Iterator[tuple[str, Leaf]]:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            if key not in COUNTS and (at or key != "engine_version"):
                yield from _leaves(inner, f"{at}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from _leaves(inner, f"{at}/{index}")
    elif (number := _number(value)) is not None:
        yield at, number
    elif not (isinstance(value, str) and value.startswith(DIGEST_PREFIX)):
        yield at, value


def _enclosures(value: Any, at: str) -> Iterator[tuple[str, Pair]]:
    if isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from _enclosures(inner, f"{at}/{index}")
    elif isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        for end in ENDS:
            lower: Any = members.get(f"lower{end}")
            upper: Any = members.get(f"upper{end}")
            for place, low, high in _enclosures_of_column(lower, upper):
                yield f"{at}/lower{end}{place}", (low, high)
        for key, inner in members.items():
            yield from _enclosures(inner, f"{at}/{key}")


def _enclosures_of_column(lower: Any, upper: Any) -> Iterator[tuple[str, float, float]]:
    # the pointer is "" for one enclosure, and "/" with the index in a column
    is_column = isinstance(lower, list) and isinstance(upper, list)
    lows: list[Any] = cast("list[Any]", lower) if is_column else [cast("Any", lower)]
    highs: list[Any] = cast("list[Any]", upper) if is_column else [cast("Any", upper)]
    for index, pair in enumerate(zip(lows, highs, strict=False)):
        low, high = map(_number, pair)
        if low is not None and high is not None:
            yield f"/{index}" if is_column else "", low, high


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not (isinstance(value, int | float) or value in ("Infinity", "-Infinity")):
        return None
    return float(value)
