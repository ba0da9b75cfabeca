"""Examples of the documentation, run with stubs of the libraries that they use."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from privacy_bounds import Local
from tests.slow_marker import crossed

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
KEY = re.compile(r"[/\w.\- ]{1,250}", re.ASCII)


def example(name: str) -> Any:
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


class Accountant:
    """Stub of an accountant of Opacus: one row for each change of noise or rate."""

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        *before, last = self.history or [(noise_multiplier, sample_rate, 0)]
        if last[:2] == (noise_multiplier, sample_rate):
            self.history = [*before, (noise_multiplier, sample_rate, last[2] + 1)]
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def state_dict(self) -> dict[str, Any]:
        return {"history": self.history, "mechanism": "prv"}


class Recorder(ModuleType):
    """Stub of MLflow with its limits: parameters are written once, and keys and values have a maximum length."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.params: dict[str, Any] = {}
        self.metrics: dict[str, float] = {}
        self.tags: dict[str, Any] = {}

    def log_params(self, params: dict[str, Any]) -> None:
        assert not params.keys() & self.params.keys()
        assert len(params) <= 100
        assert all(KEY.fullmatch(key) and len(str(value)) <= 6000 for key, value in params.items())
        self.params |= params

    def log_metrics(self, metrics: dict[str, float]) -> None:
        assert len(metrics) <= 1000
        assert all(KEY.fullmatch(key) and isinstance(value, float) for key, value in metrics.items())
        self.metrics |= metrics

    def set_tags(self, tags: dict[str, Any]) -> None:
        assert all(KEY.fullmatch(key) and len(str(value)) <= 5000 for key, value in tags.items())
        self.tags |= tags


def train_under(watch: Any, accountant: Accountant, noises: list[float], rate: float, interval: int) -> bool:
    """Run the training interval by interval, as in the example, and return whether the watch ended the run."""
    for noise in noises:
        if not watch.allows(accountant, noise_multiplier=noise, sample_rate=rate, steps=interval):
            return True
        for _ in range(interval):
            accountant.step(noise_multiplier=noise, sample_rate=rate)
    return False


FALLING = [1.2] * 3 + [1.0] * 60 + [0.7] * 400


@pytest.mark.parametrize(("limit", "rate", "interval"), crossed([0.5, 1.0, 3.0], [0.05, 256 / 60_000], [37, 1, 200]))
def test_callback_ends_run_before_its_limit(limit: float, rate: float, interval: int) -> None:
    accountant, asking = Accountant(), Local()
    noises = FALLING if interval > 1 else [0.9] * 12  # One question for each step, so the run has few steps.
    watch = example("opacus_callback").PrivacyWatch(asking, delta=1e-5, most=limit)
    ended = train_under(watch, accountant, noises, rate, interval)
    epsilon = asking.epsilon(accountant, delta=1e-5).upper if accountant.history else 0.0
    assert epsilon is not None
    assert epsilon <= limit
    assert ended == (watch.epsilons[-1] > limit)
    if ended:  # No interval was wasted: the next one would certainly exceed the limit.
        noise = noises[len(watch.epsilons) - 1]
        beyond = asking.epsilon([*accountant.history, (noise, rate, interval)], delta=1e-5)
        assert beyond.lower is not None
        assert beyond.lower > limit * (1 - 1e-3)
    assert ended or interval == 1


def test_callback_ends_run_before_step_with_less_noise() -> None:
    accountant, asking = Accountant(), Local()
    watch = example("opacus_callback").PrivacyWatch(asking, delta=1e-5, most=1.0)
    assert train_under(watch, accountant, [1.2, 1.2, 0.3, 1.2], 0.01, 100)
    assert accountant.history == [(1.2, 0.01, 200)]
    assert watch.epsilons[-2] <= 1.0 < watch.epsilons[-1]


def test_assessment_is_logged_within_limits_of_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Recorder()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    accountant = Accountant()
    for _ in range(1000):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    context = {"delta": 1e-5, "dataset_size": 48_000}
    example("mlflow_logger").log_privacy(Local(), accountant, context)
    assert mlflow.tags["dp.result_digest"] == Local().assess(accountant, context).digest
    assert any(abs(value - 1.8282366665) < 1e-9 for value in mlflow.metrics.values())
    assert "dp.mechanism.noise_multiplier" in mlflow.params
