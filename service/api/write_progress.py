"""Progress of a client in receiving its responses, measured by the data that the client acknowledged.

The kernel buffers data that the client has not received yet.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from array import array
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Any, Final, final

from service.execution.resource_budget import TransferDeadline

LEAST_BYTES_PER_SECOND: Final = 4096
DRAINED_BYTES: Final = 48 * 1024
"""Bytes between the levels at which a transport pauses and resumes writing."""
ACKNOWLEDGED_AT: Final = 120
"""Offset of `tcpi_bytes_acked` in `struct tcp_info` of Linux."""


@final
class WriteProgress:
    """Progress of one client in receiving its responses.

    A client with pending data is too slow if it received less than the minimum rate of 4096 bytes per second for
    `patience` seconds. A client that received everything that was pending at an earlier check gets the full time again.
    `since` is the time since when it received nothing, None without pending data.
    """

    def __init__(self, transport: asyncio.Transport, patience: float) -> None:
        self._transport = transport
        self._patience = patience
        self._pace: TransferDeadline | None = None
        self._taken = self._target = self._untaken = self._drained = 0
        self.since: float | None = None
        """Time since when the client received nothing of the pending data. None: no data is pending."""

    def resumed(self) -> None:
        """Record that the transport of the connection accepts data again."""
        self._drained += DRAINED_BYTES

    def is_behind(self, now: float) -> bool:
        """Update the progress in receiving responses at the time `now`, and return whether the client is too slow.

        The time is that of the event loop, in seconds.
        """
        kept = self._transport.get_write_buffer_size()
        untaken, taken = self._transmission_counts(kept)
        moved, self._taken, self._untaken, self._drained = taken - self._taken, taken, untaken, 0
        if not untaken:
            self._pace = self.since = None
            return False
        is_late = False
        if self._pace is None or taken >= self._target:
            self._pace, self._target = TransferDeadline(now, self._patience, LEAST_BYTES_PER_SECOND), taken + untaken
            self.since = None
        else:
            is_late = now > self._pace.at
            if moved > 0:
                self._pace.advance(now, moved)
                self.since = None
        if self.since is None and kept:
            self.since = now
        return is_late

    def _transmission_counts(self, kept: int) -> tuple[int, int]:
        # (bytes that the client has not received yet, bytes that it received since it connected)
        connection = _socket_of(self._transport)
        if connection is not None:
            count = array("i", [0])
            try:
                ioctl(connection.fileno(), TIOCOUTQ, count)
                tcp_info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, ACKNOWLEDGED_AT + 8)
                return kept + count[0], struct.unpack_from("Q", tcp_info, ACKNOWLEDGED_AT)[0]
            except (OSError, struct.error, AttributeError):
                pass  # no TCP, or another system: only what the transport keeps is known
        return kept, self._taken + max(self._untaken - kept, self._drained)


def peer_closed(transport: asyncio.Transport) -> bool:
    """Return whether the client at the other end of `transport` has closed its side (on Linux; False elsewhere)."""
    connection = _socket_of(transport)
    if connection is None or not hasattr(select, "POLLRDHUP"):
        return False
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def _socket_of(transport: asyncio.Transport) -> Any:
    connection = transport.get_extra_info("socket")
    return None if connection is None or connection.fileno() < 0 else connection
