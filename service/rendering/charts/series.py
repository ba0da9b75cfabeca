"""Named series of a chart, built from the curves of a response."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast, final

from api_schemas.choices import NeighboringRelation
from api_schemas.curves import Curve, CurvesResponse
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel
from service.rendering.charts.style import Spec
from service.rendering.charts.words import join_counted
from service.rendering.numbers import format_exact

LONGEST_MECHANISM: Final = 96
ATTACKERS: Final = {
    "worst_case": "Worst case",
    "glrt": "GLRT, direction unknown",
    "membership": "Membership, data unknown",
    "practical": "Practical (PMP)",
    "mixture": "Mixture of attackers",
}
NEIGHBOURS: Final[dict[NeighboringRelation, str]] = {
    "add_or_remove_one": "a record added or removed",
    "replace_one": "a record replaced",
    "zero_out": "a record emptied",
}


@final
class Series(NamedTuple):
    """Named series of a chart: power at several false positive rates.

    `value` is the safe value of the power: its upper bound, or an approximation. `lower` and `upper` are bounds, or
    None for an approximation. `worst` is True for a curve of the worst case.
    """

    name: str
    rates: Sequence[float]
    value: Sequence[float]
    lower: Sequence[float] | None
    upper: Sequence[float] | None
    worst: bool

    def at(self, rate: float) -> float | None:
        """Return the safe value of the power at a false positive rate, or None if the series has no point there."""
        return self.value[self.rates.index(rate)] if rate in self.rates else None

    def rows(self, x: str, y: str) -> list[Spec]:
        """Return the points that a logarithmic axis can show, as rows of data by increasing rate.

        A row has the columns `series` (the name), `x` (the rate), `y` (the safe value of the power), `lower` and
        `upper`. The arguments `x` and `y` are names of columns. Points whose rate or power is not positive are omitted.
        Bounds may be 0 or None.
        """
        ends = zip(self.lower or (None,) * len(self.rates), self.upper or (None,) * len(self.rates), strict=True)
        return [
            {"series": self.name, x: rate, y: value, "lower": lower, "upper": upper}
            for rate, value, (lower, upper) in sorted(zip(self.rates, self.value, ends, strict=True))
            if rate > 0 and value > 0
        ]


def series_of(response: CurvesResponse, curves: Iterable[Curve] | None = None) -> list[Series]:
    """Return a series with a distinct name for each curve of a response, or for the given `curves`."""
    selected = list(response.curves if curves is None else curves)
    return [
        _series(name, response.false_positive_rates, each)
        for name, each in zip(_distinct_curve_names(selected), selected, strict=True)
    ]


def first_curve_series(name: str, response: CurvesResponse) -> Series:
    """Return the first curve of a response under the given name.

    `(approximation)` follows the name if the curve has no bounds.
    """
    return _series(name, response.false_positive_rates, response.curves[0])


def _series(name: str, rates: Sequence[float], curve: Curve) -> Series:
    power = curve.power
    worst = curve.threat_model.type == "worst_case"
    shown = name if power["upper"] is not None else f"{name} (approximation)"
    return Series(shown, rates, power["value"], power["lower"], power["upper"], worst)


def _distinct_curve_names(curves: Sequence[Curve]) -> list[str]:
    attacked = attackers([each.threat_model for each in curves])
    methods = len({each.requested_method for each in curves}) > 1
    directions = len({each.direction for each in curves}) > 1
    names = [
        ", ".join(
            (attacker, *((each.requested_method,) if methods else ()), *((each.direction,) if directions else ()))
        )
        for attacker, each in zip(attacked, curves, strict=True)
    ]
    return _with_numbers_where_equal(names)


def attackers(models: Sequence[ThreatModelSpec]) -> list[str]:
    """Return names of the attackers `models`, with their parameters where several of them have one type."""
    named = [(ATTACKERS[each.type], _in_words(each)) for each in models]
    kinds = Counter(name for name, _ in dict.fromkeys(named))
    return [f"{name}, {given}" if given and kinds[name] > 1 else name for name, given in named]


def _in_words(model: ThreatModelSpec) -> str:
    if isinstance(model, WorstCaseThreatModel):
        records = () if model.records is None else (f"{model.records} records",)
        return ", ".join((NEIGHBOURS[model.neighboring_relation], *records))
    return join_counted(list(_named_values(model.model_dump(mode="json", exclude_defaults=True))), LONGEST_MECHANISM)


def _with_numbers_where_equal(names: list[str]) -> list[str]:
    total, seen = Counter(names), Counter[str]()
    found: list[str] = []
    for name in names:
        seen[name] += 1
        found.append(f"{name} ({seen[name]})" if total[name] > 1 else name)
    return found


def describe_mechanism(spec: Any, longest: int = LONGEST_MECHANISM, without: Container[str] = ()) -> str:
    """Return a mechanism as one line of request fields, without the fields in `without`.

    Fields with their default values are left out. Fields that do not fit into `longest` characters are counted.
    """
    fields: dict[str, Any] = spec.model_dump(mode="json", exclude_defaults=True)
    items = list(_named_values({name: value for name, value in fields.items() if name not in without}))
    kind = f"{spec.type}: " if items else spec.type
    return kind + join_counted(items, longest - len(kind))


def _named_values(fields: Mapping[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        if name == "type":
            continue
        several = cast("list[Any]", value) if isinstance(value, list) else [value]
        for place, each in enumerate(several):
            shown = name if place == 0 else ""
            if isinstance(each, dict):
                part = cast("dict[str, Any]", each)
                yield f"{shown} {part.get('type', '')}".strip()
                yield from _named_values(part)
            else:
                yield f"{shown} {_written(each)}".strip()


def _written(value: Any) -> str:
    if isinstance(value, float):
        return format_exact(value)
    return value if isinstance(value, str) else json.dumps(value)
