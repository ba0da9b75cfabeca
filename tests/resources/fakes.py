"""Stub engines: curves of a known Gaussian under other names, and one that fails.

The tests are about the handling of an engine's name, evidence and failures, not about its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import pytest

from service.privacy.composition.planning import engines as composition_engines
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import NumericalFailure, UnsupportedCombination
from service.privacy.mechanisms.abstract import Steps
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

NOTE = "a fake"
REASON = "the fake failed"


class StubCurve(AbstractTradeOff):
    """The curve of N(0, 1) against N(mu, 1) under another name, with zero width if asymptotic."""

    def __init__(self, method: str, evidence: Evidence, mu: float) -> None:
        self.method, self.evidence, self._mu = method, evidence, mu
        self._curve = gaussian_curve(Enclosure.point(mu))

    @property
    def largest_log_ratio(self) -> Enclosure:
        return self._one(self._curve.largest_log_ratio)

    @property
    def smallest_log_ratio(self) -> Enclosure:
        return self._one(self._curve.smallest_log_ratio)

    @property
    def singular_power(self) -> Enclosure:
        return self._one(self._curve.singular_power)

    @property
    def global_gdp_mu(self) -> Enclosure | None:
        return self._one(Enclosure.point(self._mu))

    def reversed(self) -> AbstractTradeOff:
        return self

    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        points = self._curve.points(alpha)
        return CurvePoints(self._many(points.type_two_error), self._many(points.power), points.log_slope)

    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return self._many(self._curve.profile(epsilon))

    def _epsilon_formula(self, delta: float) -> Enclosure:
        return self._one(self._curve.epsilon(delta))

    def _one(self, enclosure: Enclosure) -> Enclosure:
        lower = enclosure.upper if self.evidence is Evidence.ASYMPTOTIC else enclosure.lower
        return Enclosure(lower, enclosure.upper, self.evidence)

    def _many(self, bounds: EnclosureArray) -> EnclosureArray:
        if self.evidence is Evidence.ASYMPTOTIC:
            return EnclosureArray(bounds.upper, bounds.upper, bounds.log_upper, bounds.log_upper)
        return bounds


class Failing(StubCurve):
    """Stub of a curve whose every evaluation fails."""

    def _points_formula(self, alpha: FloatArray) -> NoReturn:
        raise NumericalFailure(REASON)

    def _profile_formula(self, epsilon: FloatArray) -> NoReturn:
        raise NumericalFailure(REASON)

    def _epsilon_formula(self, delta: float) -> NoReturn:
        raise NumericalFailure(REASON)


class FakeEngines:
    """Stub engines. `asked` records the options of each engine by name."""

    def __init__(self) -> None:
        self.asked: dict[str, EngineOptions] = {}

    def _engine(
        self, method: str, evidence: Evidence, kind: type[StubCurve], mu: float
    ) -> Callable[[Steps, EngineOptions], TradeOffPair]:
        def engine(steps: Steps, options: EngineOptions) -> TradeOffPair:
            self.asked[method] = options
            moved = max(step.sensitivity if isinstance(step, Gaussian) else 1 for step, _ in steps)
            curve = kind(method, evidence, mu * moved)
            return TradeOffPair(curve, curve, f"{method} theorem", (NOTE,))

        return engine

    def table(self) -> dict[str, composition_engines.Engine]:
        """Return the engines: discretised fails on evaluation, saddlepoint supports nothing, clt has the smallest
        mu.
        """
        builds: dict[str, composition_engines.Build] = {
            "discretised": self._engine("discretised", Evidence.CERTIFIED, Failing, 1.0),
            "saddlepoint": _nothing,
            "edgeworth": self._engine("edgeworth", Evidence.ASYMPTOTIC, StubCurve, 1.0),
            "clt": self._engine("clt", Evidence.ASYMPTOTIC, StubCurve, 0.5),
            "monte_carlo": self._engine("monte_carlo", Evidence.STATISTICAL, StubCurve, 1.0),
            "ground_truth": self._engine("ground_truth", Evidence.PROVED, StubCurve, 1.0),
        }
        return {name: replace(engine, build=builds[name]) for name, engine in composition_engines.ENGINES.items()}


def _nothing(steps: Steps, options: EngineOptions) -> NoReturn:
    raise UnsupportedCombination("method", "saddlepoint for this", "it is a fake.", ("auto",))


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> FakeEngines:
    """Replace the engines that requests can name by fakes, and return the fakes."""
    fakes = FakeEngines()
    monkeypatch.setattr(composition_engines, "ENGINES", fakes.table())
    return fakes
