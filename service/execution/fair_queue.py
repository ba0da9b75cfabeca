"""Who waits for a worker, client by client: each client in the order it came, clients in turn."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import final


@dataclass(eq=False, slots=True)
class Waiting:
    """One computation that waits; `turn` is done when it may run, or fails when its place was taken from it."""

    client: str
    seconds: float
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@final
class FairQueue:
    """Round-robin over clients. However much one client sends, another one's first computation is next but one."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, deque[Waiting]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def seconds_before(self, client: str) -> float:
        """Expected work of all that runs before what this client would add now."""
        own = self._clients.get(client, ())
        before = sum(waiting.seconds for waiting in own)
        for other, line in self._clients.items():
            if other != client:
                before += sum(waiting.seconds for waiting, _ in zip(line, range(len(own) + 1), strict=False))
        return before

    def append(self, waiting: Waiting) -> None:
        """Wait behind everything else of the same client."""
        self._clients.setdefault(waiting.client, deque()).append(waiting)
        self._length += 1

    def pop(self) -> Waiting | None:
        """Who is next."""
        if not self._clients:
            return None
        client, line = self._clients.popitem(last=False)
        waiting = line.popleft()
        if line:
            self._clients[client] = line  # behind all other clients
        self._length -= 1
        return waiting

    def remove(self, waiting: Waiting) -> None:
        """Leave the queue, from wherever in it; nothing where it was left already."""
        line = self._clients.get(waiting.client)
        if line is None or waiting not in line:
            return
        line.remove(waiting)
        self._length -= 1
        if not line:
            del self._clients[waiting.client]

    def newest_of_largest(self, newcomer: str) -> Waiting | None:
        """Whose place a newcomer may have: the last of the client that has most, if that is more than it has."""
        if not self._clients:
            return None
        client, line = max(self._clients.items(), key=lambda item: len(item[1]))
        fair = len(self._clients.get(newcomer, ())) + 1
        return line[-1] if client != newcomer and len(line) > fair else None
