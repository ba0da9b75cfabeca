"""The mu of compositions of stated classes: Gaussian noise is a member, so that its mu is a lower bound."""

from __future__ import annotations

import math
from typing import Any

import pytest

from service.privacy.numerics.work import at_most
from service.privacy.questions.gaussian_dp import mu
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built
from tests.slow_marker import thorough

CLASSES: list[tuple[dict[str, Any], float]] = [
    ({"type": "zcdp", "rho": 0.5}, 1.0),
    ({"type": "rdp", "orders": [2.0, 4.0], "epsilons": [1.0, 2.0]}, 1.0),
]
"""Classes, and the mu of the Gaussian noise in each."""


@pytest.mark.parametrize(("one", "of_member"), CLASSES)
@pytest.mark.parametrize("allowance", [1e5, thorough(1e6)])
def test_mu_of_composition_is_at_least_that_of_gaussian_noise(
    one: dict[str, Any], of_member: float, allowance: float
) -> None:
    """The lower bound holds also where the search for the upper bound spends all allowed work."""
    steps = 10
    curve = WorstCase().curves(built({"type": "repeated", "mechanism": one, "steps": steps})).both
    with at_most(allowance):
        found = mu(curve, 1e-9, 1e-9)
    least = of_member * math.sqrt(steps) * (1 - 1e-9)
    assert found.value.lower >= least
    assert found.global_mu.lower >= least
    assert found.value.lower < found.value.upper
