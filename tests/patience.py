"""How long tests wait for what has to come: nothing is said of how long it takes, only that it ends."""

from __future__ import annotations

from typing import Final

PATIENCE: Final = 240.0
"""Seconds after which a test is given up; on the slowest machine, beside whatever else that does."""
