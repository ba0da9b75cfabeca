"""What is refused is refused before anything is computed, and says how much would have been too much."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from service.execution.admission import Admission
from service.execution.errors import ComputeBudgetExceeded, QueueFull


def make_admission(worker_count: int = 2, queue_limit: int = 3, queue_wait_limit_seconds: float = 100.0) -> Admission:
    return Admission(
        inline_cost_limit=8_000,
        max_cost=1_000_000,
        worker_count=worker_count,
        queue_limit=queue_limit,
        queue_wait_limit_seconds=queue_wait_limit_seconds,
    )


def test_the_limits_are_the_last_that_is_allowed() -> None:
    admission = make_admission()
    assert admission.runs_inline(0)
    assert admission.runs_inline(8_000)
    assert not admission.runs_inline(8_001)
    assert not admission.runs_inline(1_000_000)
    with pytest.raises(ComputeBudgetExceeded) as raised:
        admission.runs_inline(1_000_001)
    assert (raised.value.estimate, raised.value.limit) == (1_000_001, 1_000_000)


def test_as_many_wait_as_the_queue_holds() -> None:
    admission = make_admission()
    with ExitStack() as places:
        for _ in range(5):
            places.enter_context(admission.place(10_000))
        assert admission.admitted == 5
        with pytest.raises(QueueFull), admission.place(1):
            pass
        assert admission.admitted == 5
    assert admission.admitted == 0
    with admission.place(1):
        assert admission.admitted == 1


def test_nobody_is_let_in_to_wait_too_long() -> None:
    admission = make_admission(worker_count=1, queue_limit=100, queue_wait_limit_seconds=1.5)
    with admission.place(1_000_000), admission.place(1_000_000):
        with pytest.raises(QueueFull) as raised, admission.place(1):
            pass
        assert raised.value.retry_after_seconds == 2


def test_a_place_is_free_again_after_a_failure() -> None:
    admission = make_admission()
    with pytest.raises(ZeroDivisionError), admission.place(1):
        raise ZeroDivisionError
    assert admission.admitted == 0
