"""Memory for uploads is bounded for all of them together."""

from __future__ import annotations

import pytest

from service.execution.errors import QueueFull
from service.execution.upload_space import LARGEST_UPLOADS_AT_ONCE, UploadSpace


def test_the_space_is_for_all_together_and_given_back() -> None:
    space = UploadSpace(100)
    with space.hold(100 * LARGEST_UPLOADS_AT_ONCE - 1), space.hold(1):
        with pytest.raises(QueueFull) as caught, space.hold(1):
            pytest.fail("there is no room")
        assert caught.value.retry_after_seconds >= 1
    with space.hold(100 * LARGEST_UPLOADS_AT_ONCE):
        pass


def test_a_failure_gives_its_space_back() -> None:
    space = UploadSpace(1)
    for _ in range(10):
        with pytest.raises(ValueError, match="failed"), space.hold(LARGEST_UPLOADS_AT_ONCE):
            raise ValueError("failed")
