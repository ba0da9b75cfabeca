"""Free parameters of a request: which numbers may vary, and the request with other values of these numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from api_schemas.base import Request
from api_schemas.limits import limit_error
from api_schemas.pointers import NoSuchNumber, Place, as_sent, place_of, replaced

TIED: Final = ("weight", "weights", "prior_probabilities")
"""Numbers that sum to 1 with others, so that none of them is free."""
ABSENT: Final = {"records": 1}
"""What an absent number that may be free stands for."""
FOLLOWS: Final = {"batch_size": ("sample_rate",), "dataset_size": ("sample_rate",)}
"""Numbers of dpsgd that follow from a free one, where both were sent; steps always follow from epochs."""

DOES_NOT_FIT: Final = (ValidationError, PydanticCustomError)
"""What is raised where a number does not fit the rest of the request."""


def free_place(request: Request, pointer: str, at: str, parts: Mapping[str, str]) -> Place:
    """Return the position of a number of a request that may vary. Raise PydanticCustomError for any other pointer.

    `at` is the pointer of the request member that names the position. `parts` are the parts of the request that may
    contain it, with their names in error messages.
    """
    try:
        place = place_of(request, pointer)
    except NoSuchNumber as error:
        raise limit_error(at, str(error)) from None
    if not any(step in parts for step in place.steps[:3]):
        *others, last = parts.values()
        raise limit_error(at, f"Must point into {', '.join(others)}, or {last}.")
    if place.name in TIED:
        raise limit_error(at, f"{place.name} must sum to 1 with other numbers, so it cannot vary alone.")
    if place.number is None and place.name not in ABSENT:
        raise limit_error(at, f"The request has no {place.name}. Send a number as the start of the search.")
    if place.kind == "dpsgd":
        _check_tied(place, at)
    return place


def follows(place: Place) -> tuple[str, ...]:
    """Return the fields of a request that are derived from the number at a position.

    Derived fields are omitted when the number changes.
    """
    if place.kind != "dpsgd":
        return ()
    found = FOLLOWS.get(place.name, ())
    return (*found, "steps") if getattr(place.owner, "epochs", None) is not None else found


def with_numbers(request: Request, numbers: Iterable[tuple[Place, float]]) -> dict[str, Any]:
    """Return the top-level members of a request with new values of some numbers, as a client would send them."""
    sent: dict[str, Any] = {}
    for place, number in numbers:
        part, *inner = place.steps
        name = str(part)
        before = sent[name] if name in sent else as_sent(request.__dict__[name])
        sent[name] = replaced(before, tuple(inner), number, follows(place))
    return sent


def _check_tied(place: Place, at: str) -> None:
    """Raise PydanticCustomError for a number of a `dpsgd` mechanism that other given fields determine."""
    held = place.owner.__dict__
    if place.name == "sample_rate" and held["batch_size"] is not None:
        raise limit_error(
            at, "sample_rate follows from batch_size and dataset_size. Free one of these numbers, or omit both."
        )
    if place.name == "steps" and held["epochs"] is not None:
        raise limit_error(at, "steps follow from epochs. Free epochs instead, or omit epochs.")
