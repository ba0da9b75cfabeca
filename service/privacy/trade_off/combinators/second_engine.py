"""How often a second engine was asked, so that only answers in which it was say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from service.privacy.limit import WidthLimit


@final
@dataclass(slots=True, eq=False)
class SecondEngine:
    """`note`: what an answer says in which it was asked. `times`: how often it was, in all directions of a pair.

    `declined`: why it was last not asked for a wide enclosure; None where it never was.
    """

    note: str
    times: int = 0
    declined: WidthLimit | None = None
