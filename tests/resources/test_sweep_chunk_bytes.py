"""Independence of sweep chunks: every point has the same bytes in a chunk, in half a chunk, and in the whole sweep."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from api_schemas.long_sweeps import LongSweepsRequest
from service.rendering.tables.sweeps import to_json_lines
from service.resources.abstract import BLOCK_POINTS
from service.resources.sweeps import batch_evaluation
from service.resources.sweeps.blocks import BLOCK_PARTS, block_points
from service.resources.sweeps.chunks import CHUNKING
from service.resources.sweeps.sweeping import SWEEPS
from tests.resources.sweep_cases import NAMED, Spec, parsed, questions, spread, swept, training_runs
from tests.slow_marker import sample_of, thorough

VERSION = "2026.01.01"
NOISE, RATE, STEPS = ("/mechanism/noise_multiplier", "/mechanism/sample_rate", "/mechanism/steps")
RUN: Spec = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
SAMPLED: Spec = {
    "type": "repeated",
    "steps": 500,
    "mechanism": {
        "type": "poisson_sampled",
        "sample_rate": 0.02,
        "mechanism": {"type": "gaussian", "noise_multiplier": 1.2},
    },
}
GAUSSIAN: Spec = {"type": "gaussian", "noise_multiplier": 1.0}
PHASES = RUN | {"noise_multiplier": [1.0, 2.0], "steps": [300, 400]}


def lines_of_sweep(body: Spec) -> list[str]:
    """Return the JSON line of every point of a sweep in one request."""
    return to_json_lines(swept(body)).splitlines()


def lines_from_chunks(body: Spec, cuts: list[int]) -> list[str]:
    """Return the JSON lines from chunks of a job that end at these indices."""
    long = LongSweepsRequest.model_validate_json(json.dumps(body))
    lines: list[str] = []
    for stop in cuts:
        batch_evaluation._read_together.cache_clear()  # As in a process of its own.
        piece = CHUNKING.chunk_request(long, len(lines), stop)
        lines += CHUNKING.lines(SWEEPS.body(piece, NAMED, VERSION), len(lines)).decode().splitlines()
    return lines


def some_cuts(random: Generator, count: int) -> list[int]:
    """Draw indices at which chunks end: single points, halves, neighbours of block boundaries, and random ones."""
    drawn = {int(each) for each in random.integers(1, count, 3)}
    first = int(random.integers(count))
    beside = {BLOCK_POINTS + int(random.integers(-1, 2)), first + 1, first, count // 2}
    return sorted({each for each in drawn | beside if 0 < each < count} | {count})


def steps_of_few_runs(random: Generator) -> Spec:
    """Draw a sweep over numbers of steps: its points share noise and rate, in more than one block."""
    noises, rates = ([spread(random, *ends) for _ in range(2)] for ends in ((0.7, 5.0), (2e-3, 0.1)))
    return {
        "mechanism": RUN,
        "vary": {
            NOISE: {"values": noises},
            RATE: {"values": rates},
            STEPS: {"from": 300, "to": 20_000, "count": 45, "spacing": "log"},
        },
        "questions": [{"type": "epsilon", "delta": 1e-6}, {"type": "reconstruction", "baseline_success": 1e-3}],
    }


def runs_of_all_kinds(random: Generator) -> Spec:
    """Draw runs that differ in everything. Some have problems, and some have few steps."""
    vary = training_runs(random, 60)
    vary[NOISE]["values"][3], vary[RATE]["values"][7], vary[STEPS]["values"][9] = -1.0, 1.0, 0.5
    near = {"type": "delta", "epsilon": float(random.uniform(0, 0.1))}  # More distant ones of small runs take seconds.
    listed = [near, *(each for each in questions(random) if each["type"] not in ("delta", "trade_off"))]
    chosen = [listed[place] for place in random.permutation(len(listed))[:2]]
    return {"mechanism": RUN, "vary": vary, "combine": "zip", "questions": chosen}


def any_step(random: Generator) -> Spec:
    """Draw runs that contours do not serve: rare records, little noise, few steps."""
    values = {
        "/mechanism/mechanism/mechanism/noise_multiplier": [spread(random, 0.4, 20.0) for _ in range(12)],
        "/mechanism/mechanism/sample_rate": [spread(random, 1e-4, 0.5) for _ in range(12)],
        "/mechanism/steps": [int(spread(random, 2, 1e5)) for _ in range(12)],
    }
    vary = {pointer: {"values": listed} for pointer, listed in values.items()}
    return {"mechanism": SAMPLED, "vary": vary, "combine": "zip", "questions": [{"type": "epsilon", "delta": 1e-5}]}


def deltas(random: Generator) -> Spec:
    vary = {"/questions/0/delta": {"from": 1e-300, "to": 0.1, "count": 40, "spacing": "log"}}
    mechanism = GAUSSIAN | {"noise_multiplier": spread(random, 0.5, 40.0)}
    return {"mechanism": mechanism, "vary": vary, "questions": [{"type": "epsilon", "delta": 0.1}]}


def small_deltas(random: Generator) -> Spec:
    """Draw deltas of which some are below all doubles: only these have logarithms."""
    vary = {"/questions/0/epsilon": {"from": 0.1, "to": 60.0, "count": 20}}
    mechanism = GAUSSIAN | {"noise_multiplier": spread(random, 0.6, 2.0)}
    return {"mechanism": mechanism, "vary": vary, "questions": [{"type": "delta", "epsilon": 1.0}]}


def beside_a_weaker_attacker(random: Generator) -> Spec:
    vary = {NOISE: {"values": [spread(random, 0.5, 4.0), -1.0, 2.0, 0.0, 3.0]}}
    asked = [{"type": "trade_off", "false_positive_rates": [1e-3, 0.2]}]
    return {"mechanism": GAUSSIAN, "threat_model": {"type": "glrt", "dimension": 20}, "vary": vary, "questions": asked}


def phases(random: Generator) -> Spec:
    vary = {f"{NOISE}/1": {"values": [spread(random, 1.0, 4.0) for _ in range(4)]}}
    return {"mechanism": PHASES, "vary": vary, "questions": [{"type": "epsilon", "delta": 1e-5}]}


KINDS = (
    steps_of_few_runs,
    runs_of_all_kinds,
    any_step,
    deltas,
    small_deltas,
    beside_a_weaker_attacker,
    phases,
)


@sample_of(4)
@pytest.mark.parametrize("seed", [1, *(thorough(seed) for seed in range(2, 14))])
@pytest.mark.parametrize("kind", KINDS)
def test_chunk_boundaries_change_no_byte(kind: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    body = kind(random)
    expected = lines_of_sweep(body)
    assert lines_from_chunks(body, some_cuts(random, len(expected))) == expected


@pytest.mark.parametrize("kind", [steps_of_few_runs, runs_of_all_kinds])
def test_single_point_is_evaluated_with_its_block(kind: Any) -> None:
    random = np.random.default_rng(5)
    body = kind(random)
    expected = lines_of_sweep(body)
    for place in (0, len(expected) // 2, len(expected) - 1):
        long = LongSweepsRequest.model_validate_json(json.dumps(body))
        lines = CHUNKING.lines(SWEEPS.body(CHUNKING.chunk_request(long, place, place + 1), NAMED, VERSION), place)
        assert lines.decode().splitlines() == [expected[place]]


def test_points_with_many_parts_are_not_held_in_memory_together() -> None:
    parts = {"type": "composed", "mechanisms": [RUN | {"steps": 10 + number} for number in range(200)]}
    vary = {"/mechanism/mechanisms/0/steps": {"values": [1, 2]}}
    body = {"mechanism": parts, "vary": vary, "questions": [{"type": "advantage"}]}
    assert block_points(parsed(body)) == BLOCK_PARTS // (1 + 2 * 200)  # Each with its phase.
    assert block_points(parsed(body | {"mechanism": RUN, "vary": {NOISE: {"values": [1]}}})) == BLOCK_POINTS
