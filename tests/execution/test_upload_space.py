"""Memory for uploads is bounded for all of them together, and taken as it is filled."""

from __future__ import annotations

import pytest

from service.execution.errors import QueueFull
from service.execution.upload_space import LARGEST_UPLOADS_AT_ONCE, UploadSpace


def test_the_space_is_for_all_together_and_given_back() -> None:
    space = UploadSpace(100)
    with space.hold() as large, space.hold() as small:
        large.grow(100 * LARGEST_UPLOADS_AT_ONCE - 1)
        small.grow(1)
        with pytest.raises(QueueFull) as caught:
            large.grow(1)
        assert caught.value.retry_after_seconds >= 1
    with space.hold() as held:
        held.grow(100 * LARGEST_UPLOADS_AT_ONCE)


def test_what_has_not_arrived_takes_no_space() -> None:
    space = UploadSpace(100)
    with space.hold(), space.hold(), space.hold(), space.hold(), space.hold() as fifth:
        fifth.grow(100)


def test_a_failure_gives_its_space_back() -> None:
    space = UploadSpace(1)
    for _ in range(10):
        with pytest.raises(QueueFull), space.hold() as held:
            list(map(held.grow, (LARGEST_UPLOADS_AT_ONCE, 1)))
