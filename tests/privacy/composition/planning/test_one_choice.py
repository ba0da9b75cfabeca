"""Compositions and selections hold one choice of data sets throughout; a single release may draw one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.combinators.bracketed import Bracketed
from tests.privacy.cases import built, dpsgd, laplace, sampled
from tests.slow_marker import thorough

Spec = dict[str, Any]
RATES: Final = np.array([1e-4, 0.01, 0.1, 0.3, 0.7])
EPSILONS: Final = np.array([-0.5, 0.0, 0.4, 1.0])


def twice(spec: Spec) -> Spec:
    """Return two releases of a mechanism."""
    return {"type": "repeated", "steps": 2, "mechanism": spec}


SYMMETRIC_BRACKETS: Final = (
    thorough({"type": "zcdp", "rho": 1e-4}),
    thorough({"type": "rdp", "orders": [2.0], "epsilons": [1e-3]}),
    {"type": "report_noisy_max", "noise": "laplace", "scale": 50.0, "sensitivity": 1.0},
    {"type": "sparse_vector", "threshold_epsilon": 0.01, "query_epsilon": 0.01, "positives": 1},
    twice({"type": "permute_and_flip", "epsilon": 0.02}),
)
INTEGERS: Final = sampled(0.2, {"type": "discrete_laplace", "scale": 0.5, "sensitivity": 1})
ASYMMETRIC: Final = (INTEGERS, thorough(dpsgd(0.8, 0.2, 3)), thorough(sampled(0.2, laplace(0.7))))


@pytest.mark.parametrize("beside", ASYMMETRIC)
@pytest.mark.parametrize("spec", SYMMETRIC_BRACKETS)
def test_bounds_of_each_direction_are_in_order_beside_asymmetric_steps(spec: Spec, beside: Spec) -> None:
    """A symmetric step beside a step that one direction makes easier to attack does not swap the whole run."""
    pair = WorstCase("add_or_remove_one").curves(built({"type": "composed", "mechanisms": [spec, beside]}))
    assert pair.bracket is not None
    for curve in (pair.add, pair.remove):
        assert isinstance(curve, Bracketed)
        below, above = curve.attained, curve.dominating
        assert (below.points(RATES).power.lower <= above.points(RATES).power.upper).all()
        assert (below.points(RATES).type_two_error.upper >= above.points(RATES).type_two_error.lower).all()
        assert (below.profile(EPSILONS).lower <= above.profile(EPSILONS).upper).all()
