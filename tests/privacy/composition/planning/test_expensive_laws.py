"""Plans of steps whose laws cost milliseconds: they ask for no law, and answer as plans that do."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from service.privacy.composition.planning import choose
from service.privacy.mechanisms.abstract import AbstractMechanism, AbstractStep
from service.privacy.mechanisms.composed import Composed
from service.privacy.mechanisms.discrete import few_attacks, skellam
from service.privacy.mechanisms.discrete.discrete_gaussian import DiscreteGaussian, DiscreteGaussianStep
from service.privacy.mechanisms.discrete.report_noisy_max import ReportNoisyMax
from service.privacy.mechanisms.discrete.skellam import Skellam
from service.privacy.mechanisms.discrete.sparse_vector import SparseVector
from service.privacy.mechanisms.discrete.unary_encoding import UnaryEncoding
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.mixture import Mixture, WeightedMechanism
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.mechanisms.rdp import Rdp
from service.privacy.mechanisms.repeated import Repeated
from service.privacy.mechanisms.selected import Selected
from service.privacy.mechanisms.stated_divergences import StatedDivergences
from service.privacy.mechanisms.trials import FixedTrials
from service.privacy.questions.membership import advantage
from service.privacy.trade_off.atomic_law import AtomicLaw

REPLACED = Neighbours("replace_one")
KINDS: dict[str, Callable[[float], AbstractStep]] = {
    "skellam": lambda number: Skellam(variance=1e7 - number, sensitivity=3),
    "discrete_gaussian": lambda number: DiscreteGaussian(sigma=1e4 - number, sensitivity=3),
    "sparse_vector": lambda number: SparseVector(threshold_epsilon=0.1 * number, query_epsilon=0.3, positives=2),
    "report_noisy_max": lambda number: ReportNoisyMax(noise="laplace", scale=number, sensitivity=1.0, monotone=False),
    "rdp": lambda number: Rdp(orders=(2.0, 9.0), epsilons=(0.1 * number, number), directions="forward_only"),
}


def _refuse(*_: object) -> AtomicLaw:
    raise AssertionError("a plan evaluates no expensive law")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 2, 64])
def test_plans_evaluate_no_expensive_law(kind: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skellam, "_log_masses", _refuse)
    monkeypatch.setattr(DiscreteGaussianStep, "atomic_law", _refuse)
    monkeypatch.setattr(few_attacks, "_corners", _refuse)
    monkeypatch.setattr(StatedDivergences, "curves", _refuse)
    steps = tuple(KINDS[kind](1.5 + count) for count in range(number))
    runs: list[AbstractMechanism] = [
        Composed(mechanisms=steps),
        Repeated(mechanism=Composed(mechanisms=steps), steps=9),
        Composed(mechanisms=(*steps, Gaussian(noise_multiplier=2.0))),
        Selected(mechanism=steps[0], trials=FixedTrials(count=3)),
        Mixture(components=tuple(WeightedMechanism(mechanism=step, weight=1 / number) for step in steps)),
    ]
    neighbours = REPLACED if kind == "report_noisy_max" else Neighbours("add_or_remove_one")
    for run in runs:
        assert choose.plan(run, neighbours=neighbours).cost.build > 0


@pytest.mark.parametrize(
    "run",
    [
        Repeated(mechanism=Skellam(variance=3e5, sensitivity=40), steps=30),
        Composed(
            mechanisms=(
                SparseVector(threshold_epsilon=0.4, query_epsilon=0.3, positives=1),
                Gaussian(noise_multiplier=2.0),
            )
        ),
        Repeated(mechanism=SparseVector(threshold_epsilon=0.4, query_epsilon=0.3, positives=1), steps=4),
    ],
)
def test_late_plans_answer_as_plans_with_laws(run: AbstractMechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    late = choose.plan(run).curves.add
    monkeypatch.setattr(choose, "MOST_LAW_WORK", math.inf)
    now = choose.plan(run).curves.add
    assert late.epsilon(1e-6) == now.epsilon(1e-6)
    rates = np.array([1e-6, 0.3])
    assert (late.points(rates).power.upper == now.points(rates).power.upper).all()


@pytest.mark.parametrize("size", [30.0, 700.0, 1e4])
def test_choices_of_nearly_no_noise_reveal_nearly_everything(size: float) -> None:
    choices: list[AbstractMechanism] = [
        SparseVector(threshold_epsilon=size, query_epsilon=min(2 * size, 1e4), positives=1),
        ReportNoisyMax(noise="laplace", scale=1 / size, sensitivity=1.0, monotone=True),
        Repeated(mechanism=ReportNoisyMax(noise="gumbel", scale=1 / size, sensitivity=1.0, monotone=True), steps=3),
        Repeated(
            mechanism=ReportNoisyMax(noise="exponential", scale=1 / size, sensitivity=1.0, monotone=True), steps=3
        ),
        Repeated(mechanism=SparseVector(threshold_epsilon=size, query_epsilon=size, positives=1), steps=3),
    ]
    for choice in choices:
        found = advantage(choose.pair(choice).both).value
        assert 0.99 < found.lower <= found.upper <= 1


def test_long_reports_are_planned_without_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    from service.privacy.trade_off import atom_sums

    monkeypatch.setattr(atom_sums, "total_law", _refuse)
    step = UnaryEncoding(true_bit=0.7, false_bit=0.2)
    run = Repeated(mechanism=step, steps=5)
    assert choose.plan(run, neighbours=Neighbours("replace_one", records=1000)).cost.build > 0
