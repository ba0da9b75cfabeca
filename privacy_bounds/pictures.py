"""Pictures of answers: a chart of Altair where it is installed, otherwise the SVG of the service."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from privacy_bounds.errors import InvalidArgument

if TYPE_CHECKING:
    from privacy_bounds.api import Asking
    from privacy_bounds.runs import Notes

VEGA_LITE: Final = "application/vnd.vegalite.v5+json"
SVG: Final = "image/svg+xml"


@final
@dataclass(frozen=True, slots=True)
class Picture:
    """Picture of an answer as SVG. A notebook displays it."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({len(self.svg)} characters of SVG)"

    def save(self, path: str | Path) -> None:
        """Write the SVG picture to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")


@final
@dataclass(frozen=True, slots=True)
class Origin:
    """Request behind an answer: the client, the path and the body, and notes on how the run was read.

    `asking` is None for an answer that another process made. Answers to the same question are equal whoever computed
    them, so that any two origins are equal.
    """

    asking: Asking | None = field(default=None, compare=False, repr=False)
    path: str = field(default="", compare=False)
    body: bytes = field(default=b"", compare=False)
    notes: Notes = field(default=(), compare=False)

    def __reduce__(self) -> tuple[type[Origin], tuple[None, str, bytes, Notes]]:
        # Clients hold connections, which no other process can use.
        return Origin, (None, self.path, self.body, self.notes)

    def __deepcopy__(self, _: object) -> Origin:
        return self

    def plot(self) -> Any:
        """Return the picture of the answer: a chart of Altair, or a `Picture` without Altair. This may send a request.

        Raise InvalidArgument for an answer that another process made, and PrivacyBoundsError.
        """
        if self.asking is None:
            raise InvalidArgument(
                "This answer was not made by a client of this process, so that no service can draw it."
            )
        try:
            altair = importlib.import_module("altair")
        except ImportError:
            return Picture(self.asking.send(self.path, self.body, SVG).decode())
        return altair.Chart.from_dict(json.loads(self.asking.send(self.path, self.body, VEGA_LITE)))
