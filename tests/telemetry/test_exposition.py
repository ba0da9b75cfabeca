"""Metrics as text: what the library would write, without blocking the event loop, for any number of requests."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from service.telemetry.exposition import ExpositionWriter, SharedExposition
from service.telemetry.metrics import Metrics
from tests.timeouts import TEST_TIMEOUT


def families(text: bytes) -> dict[str, tuple[str, str, dict[tuple[str, tuple[tuple[str, str], ...]], float]]]:
    def series(metric: Metric) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return {(each.name, tuple(sorted(each.labels.items()))): each.value for each in metric.samples}

    found = text_string_to_metric_families(text.decode())
    return {each.name: (each.type, each.documentation, series(each)) for each in found if "_created" not in each.name}


def filled_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    labelled = Counter("odd", 'A text with "marks", a \\ and\na line.', ("b", "a"), registry=registry)
    for value in ("plain", 'a "quoted" text', "back\\slash", "two\nlines", "", "ü€", "{},="):
        labelled.labels(value, value[::-1]).inc(1 / 3)
    gauge = Gauge("extreme", "Values.", ("which",), registry=registry)
    for value in (0.0, -0.0, 1e300, 5e-324, 123456789.0, 1e16, -1.5, math.inf, -math.inf):
        gauge.labels(repr(value)).set(value)
    histogram = Histogram("spread", "Times.", ("route",), buckets=(0.001, 1, 2.5), registry=registry)
    for value in (0.0, 0.002, 3.0):
        histogram.labels("/v1/bounds").observe(value)
    Counter("alone", "Without labels.", registry=registry).inc()
    return registry


def test_text_is_that_of_the_library() -> None:
    registry = filled_registry()
    writer = ExpositionWriter(registry)
    assert families(writer.write()) == families(generate_latest(registry))
    assert writer.write() == writer.write(), "kept texts change nothing"
    assert b"_created" not in writer.write()


def test_text_of_the_service_is_that_of_the_library() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, "1")
    metrics.count_request("/v1/bounds", "POST", 200, 0.003)
    metrics.observe_computation("bounds", "gaussian", "inline", 1e-4)
    metrics.set_backlog(2, 0.0)
    first = families(metrics.exposition())
    other = families(generate_latest(registry))
    for name in first.keys() | other.keys():
        if not name.startswith("process_") and name != "privacy_bounds_jobs_oldest_seconds":
            assert first[name] == other[name]
    metrics.count_request("/v1/curves", "POST", 200, 0.003)
    assert b'route="/v1/curves"' in metrics.exposition(), "a series that is new after the first text"


def test_new_values_are_written() -> None:
    registry = CollectorRegistry()
    counter = Counter("events", "Events.", registry=registry)
    writer = ExpositionWriter(registry)
    for expected in (1, 2, 3):
        counter.inc()
        assert f"events_total {float(expected)}\n".encode() in writer.write()


async def test_requests_during_a_write_share_the_next_text() -> None:
    started, release = threading.Event(), threading.Event()
    written: list[int] = []
    counted = 0

    def write() -> bytes:
        found = counted
        written.append(found)
        started.set()
        assert release.wait(TEST_TIMEOUT)
        return str(found).encode()

    shared = SharedExposition(write)
    first = asyncio.create_task(shared.text())
    await asyncio.to_thread(started.wait, TEST_TIMEOUT)
    counted = 1
    later = [asyncio.create_task(shared.text()) for _ in range(50)]
    await asyncio.sleep(0)
    release.set()
    assert await first == b"0"
    assert {await each for each in later} == {b"1"}, "they see what was counted before they asked"
    assert written == [0, 1]


async def test_event_loop_runs_during_a_write() -> None:
    inside, release = threading.Event(), threading.Event()

    def write() -> bytes:
        inside.set()
        assert release.wait(TEST_TIMEOUT)
        return b""

    asking = asyncio.create_task(SharedExposition(write).text())
    await asyncio.to_thread(inside.wait, TEST_TIMEOUT)
    assert not asking.done()
    release.set()
    assert await asking == b""


async def test_cancelled_request_leaves_the_text_to_others() -> None:
    release = threading.Event()
    shared = SharedExposition(lambda: (release.wait(TEST_TIMEOUT), b"text")[1])
    gone, other = asyncio.create_task(shared.text()), asyncio.create_task(shared.text())
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    release.set()
    assert await other == b"text"


async def test_failed_write_does_not_stop_later_ones() -> None:
    answers = iter([OSError("the folder is gone"), b"text"])

    def write() -> bytes:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    shared = SharedExposition(write)
    with pytest.raises(OSError, match="gone"):
        await shared.text()
    assert await shared.text() == b"text"
