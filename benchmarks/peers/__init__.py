"""Peers, in the same run: how long building and asking takes them, how far from the truth they are, and on which side.

Each peer lives in a process of its own, so that neither imports nor memory of one touch another.
"""

from __future__ import annotations

from benchmarks.peers.compare import measure

__all__ = ["measure"]
