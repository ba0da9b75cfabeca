"""Mechanisms with a change of each of their training steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from api_schemas.mechanisms import (
    ComposedMechanism,
    DpsgdMechanism,
    MechanismSpec,
    MixtureComponent,
    MixtureMechanism,
    NoisySgdMechanism,
    PoissonSampledMechanism,
    RepeatedMechanism,
    SelectedMechanism,
)

Training: TypeAlias = DpsgdMechanism | NoisySgdMechanism | PoissonSampledMechanism
Maker: TypeAlias = Callable[[MechanismSpec], MechanismSpec | None]


def mapped(spec: MechanismSpec, change: Maker) -> MechanismSpec | None:
    """Return the mechanism `spec` with `change` applied to every training step.

    The result is None if `change` returns None for a step.
    """
    match spec:
        case RepeatedMechanism(mechanism=inner, steps=steps):
            made = mapped(inner, change)
            return made and RepeatedMechanism(type="repeated", mechanism=made, steps=steps)
        case SelectedMechanism(mechanism=inner, trials=trials, released=released):
            made = mapped(inner, change)
            return made and SelectedMechanism(type="selected", mechanism=made, trials=trials, released=released)
        case ComposedMechanism(mechanisms=parts):
            changed = [each for part in parts if (each := mapped(part, change)) is not None]
            whole = len(changed) == len(parts)
            return ComposedMechanism(type="composed", mechanisms=tuple(changed)) if whole else None
        case MixtureMechanism(components=parts):
            mixed = [
                MixtureComponent(weight=part.weight, mechanism=each)
                for part in parts
                if (each := mapped(part.mechanism, change)) is not None
            ]
            return MixtureMechanism(type="mixture", components=tuple(mixed)) if len(mixed) == len(parts) else None
        case _:
            return change(spec)


def remade(node: DpsgdMechanism, **changed: Any) -> DpsgdMechanism:
    """Return the run `node` with the fields `changed`, and with its number of steps, or of shuffled epochs."""
    shuffled = node.sampling == "shuffled"
    kept: dict[str, Any] = {
        "noise_multiplier": node.noise_multiplier,
        "sampling": node.sampling,
        "batch_size": node.batch_size,
        "dataset_size": node.dataset_size,
        "sample_rate": node.sample_rate if node.batch_size is None else None,
        "steps": None if shuffled and node.epochs is not None else node.steps,
        "epochs": node.epochs if shuffled else None,
        "reshuffled": node.reshuffled,
    }
    return DpsgdMechanism(type="dpsgd", **(kept | changed))
