"""Few steps whose shifts are many standard deviations apart: losses of hundreds of nats in several modes."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from service.privacy.composition.planning import choose
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.composed import Composed
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.gdp import Gdp
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.numerics.work import at_most
from service.resources.allowance import MOST_WORK
from tests.slow_marker import sample_of, thorough

DELTA: Final = 0.0132


def _batches(seed: int, steps: int) -> DpSgd:
    draw = random.Random(seed)
    size = draw.randint(40, 60)
    batch = round(0.7 * size)
    sizes: dict[str, Any] = {"sample_rate": batch / size, "batch_size": batch, "dataset_size": size}
    noise = draw.uniform(0.31, 0.4)
    return DpSgd(noise_multiplier=noise, steps=steps, sampling="fixed_with_replacement", **sizes)


def _epsilon(run: AbstractMechanism, method: str = "auto") -> Enclosure:
    with at_most(MOST_WORK):
        return choose.pair(run, method).add.epsilon(DELTA)


@sample_of(1)
@pytest.mark.parametrize("steps", [1, thorough(2)])
@pytest.mark.parametrize("seed", range(2))
def test_lattices_agree_with_closed_forms_for_distant_shifts(seed: int, steps: int) -> None:
    """Lattices agree with closed forms for shifts that are many standard deviations apart.

    A lattice counts losses beyond the range of doubles as revealing everything.
    """
    run = _batches(seed, steps)
    exact, found = _epsilon(run), _epsilon(run, "discretised")
    assert exact.relative_width() < 1e-6
    assert found.relative_width() < 1e-3
    assert max(exact.lower, found.lower) <= min(exact.upper, found.upper)


@pytest.mark.parametrize("seed", range(2))
def test_two_point_step_beside_one_step_has_closed_form(seed: int) -> None:
    """A step with the losses +-epsilon beside a step with distant shifts has a narrow enclosure.

    It raises epsilon by at most its own epsilon, and never lowers it.
    """
    run, epsilon = _batches(seed, 1), 1.0
    alone, beside = _epsilon(run), _epsilon(Composed(mechanisms=(run, PureDp(epsilon=epsilon))))
    assert beside.relative_width() < 1e-6
    assert alone.lower <= beside.upper
    assert beside.lower <= alone.upper + epsilon


@pytest.mark.parametrize("steps", [thorough(1), thorough(3)])
def test_few_steps_beside_others_are_narrow_within_work_allowance(steps: int) -> None:
    """Lattices serve a run whose contours are all long, within its work allowance, to a relative width of 1 %.

    The run reveals no less than the part of it that was computed alone.
    """
    run = _batches(0, steps)
    found = _epsilon(Composed(mechanisms=(Gdp(mu=1.0), run, PureDp(epsilon=1.0))))
    assert found.relative_width() < 1e-2
    assert found.upper >= _epsilon(run).lower
