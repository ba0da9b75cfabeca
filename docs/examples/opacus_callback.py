"""What a run of Opacus has revealed so far, asked after every epoch, and an end at a limit.

watch = PrivacyWatch(Local(), delta=1e-5, most=2.0)
for epoch in range(epochs):
    train(model, optimizer, loader)
    if watch(engine.accountant):
        break
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from privacy_bounds import Asking


@dataclass
class PrivacyWatch:
    """Called with the accountant of a PrivacyEngine; true once epsilon is above what it may be at most."""

    asking: Asking
    delta: float
    most: float
    epsilons: list[float] = field(default_factory=list[float])

    def __call__(self, accountant: Any) -> bool:
        """Ask about the run up to here."""
        self.epsilons.append(self.asking.epsilon(accountant, delta=self.delta, relative_tolerance=1e-3).value)
        return self.epsilons[-1] > self.most
