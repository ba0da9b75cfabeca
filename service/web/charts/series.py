"""A curve as it is drawn: columns of numbers under a name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Any, Final, NamedTuple, final

from api_schemas.curves import Curve, CurvesResponse
from service.interop.numbers import as_given
from service.web.charts.style import Spec

LONGEST_MECHANISM: Final = 96
ATTACKERS: Final = {
    "worst_case": "Worst case",
    "glrt": "GLRT, direction unknown",
    "membership": "Membership, data unknown",
    "practical": "Practical (PMP)",
    "mixture": "Mixture of attackers",
}


@final
class Series(NamedTuple):
    """Power at false positive rates. `lower`, `upper`: None where there is no bound; `worst`: of the worst case."""

    name: str
    rates: Sequence[float]
    value: Sequence[float]
    lower: Sequence[float] | None
    upper: Sequence[float] | None
    worst: bool

    def at(self, rate: float) -> float | None:
        """The safe end of the power at a rate, where it was read."""
        return self.value[self.rates.index(rate)] if rate in self.rates else None

    def rows(self, x: str, y: str) -> list[Spec]:
        """The points that a logarithmic axis has a place for. No end is moved: what is not positive is left out."""
        ends = zip(self.lower or (None,) * len(self.rates), self.upper or (None,) * len(self.rates), strict=True)
        return [
            {"series": self.name, x: rate, y: value, "lower": lower, "upper": upper}
            for rate, value, (lower, upper) in sorted(zip(self.rates, self.value, ends, strict=True))
            if rate > 0 and value > 0
        ]


def series_of(response: CurvesResponse, curves: Iterable[Curve] | None = None) -> list[Series]:
    """The curves of a response, or some of them, each under a name of its own."""
    drawn = list(response.curves if curves is None else curves)
    return [_series(name, response.false_positive_rates, each) for name, each in zip(_names(drawn), drawn, strict=True)]


def named(name: str, response: CurvesResponse) -> Series:
    """The first curve of a response, under this name."""
    return _series(name, response.false_positive_rates, response.curves[0])


def _series(name: str, rates: Sequence[float], curve: Curve) -> Series:
    power = curve.power
    worst = curve.threat_model.type == "worst_case"
    shown = name if power["upper"] is not None else f"{name} (approximation)"
    return Series(shown, rates, power["value"], power["lower"], power["upper"], worst)


def _names(curves: Sequence[Curve]) -> list[str]:
    """Who attacks; and by which method, in which direction, with which parameters, where these tell curves apart."""
    parts = [
        (
            ATTACKERS[each.threat_model.type],
            each.requested_method,
            each.direction,
            _parameters(each.threat_model.model_dump(exclude_defaults=True)),
        )
        for each in curves
    ]
    attackers = {part[0]: {other[3] for other in parts if other[0] == part[0]} for part in parts}
    methods, directions = len({part[1] for part in parts}) > 1, len({part[2] for part in parts}) > 1
    names = [
        ", ".join(
            (
                attacker,
                *((given,) if given and len(attackers[attacker]) > 1 else ()),
                *((method,) if methods else ()),
                *((direction,) if directions else ()),
            )
        )
        for attacker, method, direction, given in parts
    ]
    return _distinct(names)


def _distinct(names: list[str]) -> list[str]:
    """Equal names are numbered: what is asked for twice is drawn twice."""
    total, seen = Counter(names), Counter[str]()
    found: list[str] = []
    for name in names:
        seen[name] += 1
        found.append(f"{name} ({seen[name]})" if total[name] > 1 else name)
    return found


def described(spec: Any, longest: int = LONGEST_MECHANISM, without: Container[str] = ()) -> str:
    """A mechanism in one line, as its request says it, `without` some of its fields; the rest of a long one is left to
    the request.
    """
    told: dict[str, Any] = spec.model_dump(mode="json", exclude_defaults=True)
    fields = {name: value for name, value in told.items() if name not in without}
    text = f"{fields.pop('type', spec.type)}: {_parameters(fields)}".removesuffix(": ")
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _parameters(fields: dict[str, Any]) -> str:
    told = (f"{name} {_written(value)}" for name, value in fields.items() if name != "type")
    return ", ".join(told)


def _written(value: Any) -> str:
    if isinstance(value, float):
        return as_given(value)
    return value if isinstance(value, str) else json.dumps(value)
