"""Charges for computations to the accounts of their clients, under a limit on work."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from service.execution.client import WaitingClient
from service.execution.errors import ClientGone, ComputeBudgetExceeded, OutOfTime, QueueFull
from service.execution.stored_results import ComputedResult
from service.execution.work_limits import HIT_UNITS
from service.execution.worker_admission import COST_UNITS_PER_SECOND
from service.resources.abstract import Quote


async def charge_hit(client: WaitingClient) -> None:
    """Count an answer from a cache as HIT_UNITS (about 100 us of CPU time) in the account of the client.

    Do nothing if the client has no account. Raise WorkLimitExceeded.
    """
    if client.account is not None:
        await client.account.charge(HIT_UNITS)


async def charge_computation(
    client: WaitingClient, quote: Quote, computing: Coroutine[Any, Any, ComputedResult]
) -> ComputedResult:
    """Return the result of the awaitable `computing`, and charge its work to the account of the client.

    The estimate `quote` is charged before. After a computation in a worker, the measured CPU time replaces the
    estimate. A computation that nobody waits for any more, or that exceeded its time limit, is charged the time for
    which it held a worker, but at least its estimate. A rejected computation is not charged, and any other failed one
    is charged its estimate. Raise WorkLimitExceeded.
    """
    account = client.account
    if account is None:
        return await computing
    try:
        charge = await account.charge(max(1, quote.cost))
    except BaseException:
        computing.close()
        raise
    try:
        answer = await computing
    except (QueueFull, ComputeBudgetExceeded):  # nothing was computed
        account.settle(charge, 0)
        raise
    except (ClientGone, OutOfTime) as error:  # otherwise cancelled and endless computations would be almost free
        seconds = error.worker_seconds if isinstance(error, ClientGone) else error.limit_seconds
        account.settle(charge, max(charge.units, round(seconds * COST_UNITS_PER_SECOND)))
        raise
    if not quote.inline:
        account.settle(charge, max(HIT_UNITS, round(answer.cpu_seconds * COST_UNITS_PER_SECOND)))
    return answer
