"""Result of one check of a deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Status = Literal["ok", "warning", "failed"]
MEGABYTE: Final = 2**20


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check of a deployment: a status, a sentence on what was seen, and a remedy.

    `check` names the check. The remedy is empty if nothing is wrong. A warning leaves a deployment healthy. No sentence
    contains a secret.
    """

    check: str
    status: Status
    sentence: str
    remedy: str = ""


def as_mebibytes(count: float) -> str:
    """Return a number of bytes as text in MiB."""
    return f"{count / MEGABYTE:,.0f} MiB"
