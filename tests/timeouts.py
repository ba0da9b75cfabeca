"""Time limits of tests. They limit how long a test waits, and say nothing about the time of a computation."""

from __future__ import annotations

from typing import Final

TEST_TIMEOUT: Final = 240.0
"""Seconds after which a test gives up, on the slowest machine and under any load."""
