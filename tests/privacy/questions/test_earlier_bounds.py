"""Earlier published bounds: their printed values, where they apply, and that the service is never above them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from service.privacy.enclosure import Enclosure
from service.privacy.questions import membership
from service.privacy.questions.earlier_bounds import DpParameters
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built
from tests.privacy.threat_models.test_prior_aware import EPSILONS


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1, 0.9])
def test_service_is_never_above_earlier_bounds(epsilon: float, delta: float) -> None:
    curve = WorstCase().curves(built({"type": "approximate_dp", "epsilon": epsilon, "delta": delta})).add
    known = DpParameters(epsilon, delta)

    def undercut(ours: Enclosure, bounds: Any) -> list[str]:
        return [bound.name for bound in bounds if not ours.lower <= bound.value.upper]

    assert not undercut(membership.advantage(curve).value, known.advantage())
    for prior in (0.0, 1e-9, 0.1, 0.5, 0.9, 1.0):
        rates = (None, 0.0, 1e-7, 0.3, 1.0)
        for rate in rates:
            accuracy = membership.attack_accuracy(curve, prior, rate).value
            assert not undercut(accuracy, known.attack_accuracy(prior, rate))
            value = membership.positive_predictive_value(curve, prior, rate).value
            assert not undercut(value, known.positive_predictive_value(prior, rate))
        gain = membership.advantage_over_prior(curve, prior).value
        assert not undercut(gain, known.advantage_over_prior(prior))


def test_earlier_bounds_are_listed_where_they_apply() -> None:
    def names(bounds: Any) -> list[str]:
        return [bound.name for bound in bounds]

    pure_dp, approximate = DpParameters(1.0, 0.0), DpParameters(1.0, 1e-5)
    assert names(pure_dp.advantage()) == ["yeom", "erlingsson"]
    assert names(approximate.advantage()) == ["erlingsson"]
    assert names(pure_dp.attack_accuracy(0.5, None)) == ["yeom", "erlingsson", "sablayrolles"]
    assert names(approximate.attack_accuracy(0.5, None)) == ["erlingsson"]
    assert names(pure_dp.attack_accuracy(0.4, None)) == []
    assert names(approximate.attack_accuracy(0.4, 0.1)) == ["jayaraman"]
    assert names(pure_dp.positive_predictive_value(0.4, None)) == ["sablayrolles"]
    assert names(pure_dp.positive_predictive_value(0.4, 0.1)) == ["sablayrolles", "jayaraman"]
    assert names(approximate.positive_predictive_value(0.4, None)) == []
    assert names(pure_dp.advantage_over_prior(0.4)) == ["sablayrolles"]
    for bounds in (pure_dp.advantage(), pure_dp.attack_accuracy(0.5, None), pure_dp.advantage_over_prior(0.3)):
        assert all(0 <= bound.value.lower <= bound.value.upper <= 2 and bound.source for bound in bounds)


@pytest.mark.parametrize(
    ("epsilon", "yeom", "erlingsson", "sablayrolles"),
    [(1.0, 1.0, 0.816060279414279, 0.75), (2.0, 1.0, 0.932332358381694, 1.0), (0.1, 0.552585459, 0.547581291, 0.525)],
)
def test_earlier_bounds_match_printed_values(
    epsilon: float, yeom: float, erlingsson: float, sablayrolles: float
) -> None:
    """Earlier bounds of the accuracy have the values printed in Section 5.1 of Thudi et al.

    At epsilon 1 they are 81.6 % (Erlingsson) and 75 % (Sablayrolles), and at epsilon 2 93.2 % (printed as 95 %) and 100
    %.
    """
    found = {bound.name: bound.value.upper for bound in DpParameters(epsilon, 0.0).attack_accuracy(0.5, None)}
    wanted = {"yeom": yeom, "erlingsson": erlingsson, "sablayrolles": sablayrolles}
    assert found == pytest.approx(wanted, abs=1e-9)


def test_erlingsson_with_delta_is_valid_and_not_tight() -> None:
    """The bound of Erlingsson, 1 - e^-eps + delta e^-eps, exceeds the tight one, (e^eps - 1 + 2 delta)/(e^eps + 1).

    Both bound the advantage under (eps, delta)-DP.
    """
    [erlingsson] = DpParameters(1.0, 0.01).advantage()
    assert erlingsson.value.upper == pytest.approx(1 - 0.99 * math.exp(-1), rel=1e-14)
    assert erlingsson.value.upper > 0.4675
