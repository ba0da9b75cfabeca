"""Time limits of tests. They bound how long a test waits, and say nothing of how long a computation takes."""

from __future__ import annotations

from typing import Final

TEST_TIMEOUT: Final = 240.0
"""Seconds after which a test gives up, on the slowest machine and beside any load."""
