"""Counter of the uses of a second engine. Only answers that used the engine have its note."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from service.privacy.limit import WidthLimit


@final
@dataclass(slots=True, eq=False)
class SecondEngine:
    """Counter of the uses of a second, more expensive engine where the first gives wide enclosures.

    One counter serves both directions of a pair of curves.

    Attributes
    ----------
    note : str
        Note of an answer that used the second engine.
    times : int
        Count of its uses.
    declined : WidthLimit or None
        Why the engine was last not used for a wide enclosure; None if this never happened.
    """

    note: str
    times: int = 0
    declined: WidthLimit | None = None
