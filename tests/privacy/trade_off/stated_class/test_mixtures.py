"""Mixtures of stated classes: points against the profile, which mixes linearly, within little work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.privacy.numerics.work import at_most
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built, gaussian, mixture
from tests.slow_marker import sample_of, thorough

ZCDP: dict[str, Any] = {"type": "zcdp", "rho": 0.1}
RDP: dict[str, Any] = {"type": "rdp", "orders": [2.0, 4.0, 16.0], "epsilons": [0.2, 0.4, 1.7]}
ALLOWED = 2e6
"""Allowed work in microseconds."""


@sample_of(1)
@pytest.mark.parametrize(
    "parts",
    [
        thorough(((0.5, ZCDP), (0.5, ZCDP | {"rho": 1.0}))),
        ((0.3, ZCDP), (0.7, RDP)),
        ((0.3, RDP), (0.7, gaussian(1.0))),
        ((0.3, RDP | {"directions": "forward_only"}), (0.7, gaussian(1.0))),
    ],
)
def test_points_of_mixtures_are_the_lower_envelope_of_lines(parts: tuple[tuple[float, dict[str, Any]], ...]) -> None:
    """The power at a rate is the smallest delta(c) + e^c rate over all log slopes c."""
    curve = WorstCase().curves(built(mixture(*parts))).add
    slopes = np.linspace(-3.0, 9.0, 81)
    profile = curve.profile(slopes)
    for rate in (1e-3, 0.2):
        with at_most(ALLOWED) as work:
            power = curve.power_at(rate)
        assert work.done < ALLOWED
        assert power.relative_width() <= 1e-7
        envelope = float((profile.upper + np.exp(slopes) * rate).min())
        assert power.lower <= envelope * (1 + 1e-12)
        assert envelope <= power.upper * (1 + 1e-2)
