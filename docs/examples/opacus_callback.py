"""Stop a run of Opacus before its epsilon exceeds a limit: ask about the next steps before they are taken.

watch = PrivacyWatch(Local(), delta=1e-5, most=2.0)
for epoch in range(epochs):
    ahead = {"noise_multiplier": optimizer.noise_multiplier, "sample_rate": 1 / len(loader), "steps": len(loader)}
    if not watch.allows(engine.accountant, **ahead):
        break
    train(model, optimizer, loader)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from privacy_bounds import Asking


@dataclass
class PrivacyWatch:
    """Limit `most` on the epsilon of a training run at `delta`.

    `epsilons` lists an upper bound of the epsilon for each question so far.
    """

    asking: Asking
    delta: float
    most: float
    epsilons: list[float] = field(default_factory=list[float])

    def allows(self, accountant: Any, *, noise_multiplier: float, sample_rate: float, steps: int) -> bool:
        """Return whether the training run keeps the limit after `steps` more steps than the accountant has counted."""
        state = accountant.state_dict()
        ahead = {**state, "history": [*state["history"], (noise_multiplier, sample_rate, steps)]}
        self.epsilons.append(self.asking.epsilon(ahead, delta=self.delta, relative_tolerance=1e-3).value)
        return self.epsilons[-1] <= self.most
