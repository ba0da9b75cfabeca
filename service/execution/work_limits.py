"""Limits on the work that one requester (a group of callers, or a client address) may have done in a window of time.

Work is counted in the units of costs, about 1 us of CPU time each. A computation is charged its estimate before it
starts, and the difference to its CPU time afterwards. A computation that exceeds its time limit, or whose last client
disconnects, is charged the time for which it held a worker. Results from a cache are charged HIT_UNITS. The charge of
an estimate never exceeds the limit of a window, so that an expensive request can run in a fresh window. Windows are
aligned with the clock: all processes agree on the time at which a window ends, without asking.

The counters are in a storage of the library `limits`: in memory, or in Redis for all instances together. Small charges
are counted in this process at once and sent to the storage in the background. Charges of LARGE_UNITS or more wait for
the total of the storage. While Redis does not respond, each process counts for itself.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, final

from structlog.typing import FilteringBoundLogger

from service.execution.errors import WorkLimitExceeded
from service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.aio.storage import Storage

HIT_UNITS: Final = 100
"""Charge for a result that was not computed for the request."""
LARGE_UNITS: Final = 50_000
"""Charges from this size on wait for the storage: 50 ms of work beside one round trip."""
SEND_SECONDS: Final = 0.2
"""Time for which small charges are collected before they are sent to the storage."""
STORAGE_TIMEOUT_SECONDS: Final = 0.25
PAUSE_SECONDS: Final = 1.0
"""Time without attempts after the storage did not respond."""
MOST_ACCOUNTS: Final = 8_192
KEY_PREFIX: Final = "privacy_bounds:limits"


@final
class Charge(NamedTuple):
    """Units of work that were charged to a requester in the time window with the number `window`."""

    window: int
    units: int


@final
class WorkLimits:
    """Accounts of the work of all requesters of one process, with the limit `rate`, such as `60000000/minute`.

    A unit of work is about a microsecond of CPU time.
    """

    def __init__(
        self,
        rate: str,
        redis_url: str | None,
        metrics: Metrics,
        logger: FilteringBoundLogger,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set up the accounts. `redis_url` is the address of the shared counters, or None for counters of this process.

        Import the library `limits`, which a service without limits does not load. `clock` returns seconds since 1970.
        `rate` is the limit for each requester, such as `60000000/minute`.
        """
        from limits import parse

        self.rate: RateLimitItem = parse(rate)
        self.units = self.rate.amount
        self.window_seconds = self.rate.get_expiry()
        self.policy_header = f'"work";q={self.units};w={self.window_seconds};qu="work-units"'.encode()
        """Value of `RateLimit-Policy`: quota, window in seconds, and unit of the quota."""
        self.clock = clock
        self._storage = _open_storage(redis_url)
        self._metrics = metrics
        self._logger = logger
        self._accounts: dict[str, WorkAccount] = {}
        self._paused_until = 0.0

    def account(self, requester: str) -> WorkAccount:
        """Return the account of the work of a requester (group or address)."""
        account = self._accounts.get(requester)
        if account is None:
            if len(self._accounts) >= MOST_ACCOUNTS:
                self._forget_idle()
            account = self._accounts[requester] = WorkAccount(self, requester)
        return account

    async def add(self, window: int, requester: str, units: int) -> int | None:
        """Add units of work of a requester to its counter for the time window, and return the total.

        None means that the storage does not respond, or failed within the last second. A unit is about a microsecond of
        CPU time.
        """
        now = time.monotonic()
        if now < self._paused_until:
            return None
        try:
            async with asyncio.timeout(STORAGE_TIMEOUT_SECONDS):
                key = self.rate.key_for(requester, str(window))
                total = await self._storage.incr(key, 2 * self.window_seconds, amount=units)
        except Exception as error:  # noqa: BLE001 - errors of Redis, of sockets, and time limits
            if self._paused_until == 0.0:
                self._logger.warning("work limits", state="each process counts alone", cause=type(error).__name__)
            self._metrics.count_redis_failure("limit")
            self._paused_until = now + PAUSE_SECONDS
            return None
        if self._paused_until:
            self._logger.info("work limits", state="counted together again")
            self._paused_until = 0.0
        return total

    def count_rejection(self) -> None:
        """Count one request that was rejected because its requester has used up the window."""
        self._metrics.count_rejection("work")

    async def close(self) -> None:
        """Send charged units of work that were not sent yet to the storage, and close the connections."""
        await asyncio.gather(*(account.close() for account in self._accounts.values()), return_exceptions=True)
        bridge = getattr(self._storage, "bridge", None)
        if bridge is not None:
            await bridge.storage.aclose(close_connection_pool=True)
        timer = getattr(self._storage, "timer", None)
        if timer is not None:
            timer.cancel()

    def _forget_idle(self) -> None:
        self._accounts = {name: each for name, each in self._accounts.items() if each.is_current}
        if len(self._accounts) >= MOST_ACCOUNTS:
            largest = sorted(self._accounts.items(), key=lambda item: item[1].used)[MOST_ACCOUNTS // 2 :]
            self._accounts = dict(largest)


@final
class WorkAccount:
    """Account of the work of one requester: the units of the current time window, as far as this process knows.

    While the storage does not respond, the units of other processes are missing.
    """

    __slots__ = (
        "_begin",
        "_end",
        "_limits",
        "_lock",
        "_requester",
        "_sending",
        "_synced_at",
        "_total",
        "_unsent",
        "_window",
    )

    def __init__(self, limits: WorkLimits, requester: str) -> None:
        self._limits = limits
        self._requester = requester
        self._window: int = 0
        self._begin = self._end = 0.0
        """Times at which the window begins and ends, in seconds of the clock."""
        self._total: int = 0
        """Last known total of the storage."""
        self._unsent: int = 0
        """Units that the storage does not have yet. They are negative after a correction."""
        self._synced_at = -math.inf
        self._lock = asyncio.Lock()
        self._sending: asyncio.Task[None] | None = None

    @property
    def used(self) -> int:
        """Units of work that were charged in the current time window."""
        self._move_window_to_clock()
        return max(0, self._total + self._unsent)

    @property
    def is_current(self) -> bool:
        """Whether the time window of the last charge has not ended, or units were not sent to the storage yet."""
        return self._window == self._current_window() or (self._sending is not None and not self._sending.done())

    async def charge(self, units: int) -> Charge:
        """Add units of work to the account of the current time window, and return the charge.

        A unit is about a microsecond of CPU time. More units than the limit of a whole window are charged as that
        limit. Raise WorkLimitExceeded if fewer units remain in the window. Nothing waits for the next window. Charges
        of 50 ms or more wait until the storage has returned its total.
        """
        limits = self._limits
        charged = min(units, limits.units)
        self._move_window_to_clock()
        if max(0, self._total + self._unsent) + charged > limits.units:
            # Other processes may have returned units meanwhile. Flooding requesters ask rarely.
            if time.monotonic() - self._synced_at > SEND_SECONDS:
                await self._send_unsent_units()
            if self.used + charged > limits.units:
                raise self._exceeded(units)
        charge = Charge(self._window, charged)
        self._unsent += charged
        if charged < LARGE_UNITS:
            self._send_later()
            return charge
        try:
            await self._send_unsent_units()
            if self.used > limits.units and self._window == charge.window:
                raise self._exceeded(units)
        except BaseException:
            self.settle(charge, 0)
            raise
        return charge

    def settle(self, charge: Charge, spent: int) -> None:
        """Replace the units of `charge` by the units that were spent.

        Units that were not needed are returned. A charge does not count after the end of its time window.
        """
        self._move_window_to_clock()
        if self._window == charge.window:
            self._unsent += spent - charge.units
            self._send_later()

    def headers(self) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
        """Return the headers `RateLimit-Policy` and `RateLimit`: remaining units, and seconds until they return."""
        limits = self._limits
        now = self._move_window_to_clock()
        used = self._total + self._unsent
        left = max(0, limits.units - used) if used > 0 else limits.units
        state = b'"work";r=%d;t=%d' % (left, max(1, math.ceil(self._end - now)))
        return (b"ratelimit-policy", limits.policy_header), (b"ratelimit", state)

    def seconds_left(self) -> int:
        """Return the seconds until the current time window ends, rounded up."""
        now = self._move_window_to_clock()
        return max(1, math.ceil(self._end - now))

    async def close(self) -> None:
        """Send charged units of work that were not sent to the storage yet."""
        if self._sending is not None:
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending
        await self._send_unsent_units()

    def _current_window(self) -> int:
        return int(self._limits.clock() // self._limits.window_seconds)

    def _move_window_to_clock(self) -> float:
        now = self._limits.clock()
        if not self._begin <= now < self._end:
            size = self._limits.window_seconds
            window = int(now // size)
            self._begin, self._end = float(window * size), float((window + 1) * size)
            if window != self._window:
                self._window, self._total, self._unsent = window, 0, 0
        return now

    def _exceeded(self, units: int) -> WorkLimitExceeded:
        self._limits.count_rejection()
        return WorkLimitExceeded(units, self._limits.units, self.seconds_left())

    def _send_later(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_after_pause())

    async def _send_after_pause(self) -> None:
        await asyncio.sleep(SEND_SECONDS)
        await self._send_unsent_units()

    async def _send_unsent_units(self) -> None:
        # units that the storage does not confirm stay unsent
        async with self._lock:
            self._move_window_to_clock()
            window, units = self._window, self._unsent
            self._synced_at = time.monotonic()
            total = await self._limits.add(window, self._requester, units)
            if total is not None and window == self._window:
                self._total, self._unsent = total, self._unsent - units


def _open_storage(redis_url: str | None) -> Storage:
    if redis_url is None:
        from limits.aio.storage import MemoryStorage

        return MemoryStorage()
    from limits.aio.storage import RedisStorage

    from service.execution.redis_connections import build_client

    # The library reads the scheme of an address alone; the connections are those of `build_client`.
    pool = build_client(redis_url, STORAGE_TIMEOUT_SECONDS).connection_pool
    open_redis = partial(RedisStorage, "async+redis://", implementation="redispy", key_prefix=KEY_PREFIX)
    return open_redis(connection_pool=pool)  # type: ignore[arg-type]
