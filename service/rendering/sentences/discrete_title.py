"""Discrete and local mechanisms in words, as items of a title."""

from __future__ import annotations

from api_schemas.discrete_mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    DiscreteMechanism,
    RandomizedResponseMechanism,
    SkellamMechanism,
    StaircaseMechanism,
    UnaryEncodingMechanism,
)
from service.rendering.numbers import format_exact, group_digits


def discrete_items(mechanism: DiscreteMechanism) -> list[str]:
    """Return the name and the numbers of a discrete or local mechanism, for a title."""
    match mechanism:
        case RandomizedResponseMechanism(epsilon=epsilon, options=options):
            return ["randomised response", f"epsilon {format_exact(epsilon)}", f"{group_digits(options)} options"]
        case UnaryEncodingMechanism(true_bit=true, false_bit=false, bits_per_value=bits):
            several = [] if bits == 1 else [f"{group_digits(bits)} bits per value"]
            return ["unary encoding", f"bits {format_exact(true)} and {format_exact(false)}", *several]
        case StaircaseMechanism(epsilon=epsilon, gamma=gamma):
            return ["staircase mechanism", f"epsilon {format_exact(epsilon)}", f"gamma {format_exact(gamma)}"]
        case DiscreteLaplaceMechanism(scale=scale, sensitivity=change):
            return ["discrete Laplace mechanism", f"scale {format_exact(scale)}", _sensitivity(change)]
        case DiscreteGaussianMechanism(sigma=sigma, sensitivity=change):
            return ["discrete Gaussian mechanism", f"sigma {format_exact(sigma)}", _sensitivity(change)]
        case SkellamMechanism(variance=variance, sensitivity=change):
            return ["Skellam mechanism", f"variance {format_exact(variance)}", _sensitivity(change)]


def _sensitivity(change: int) -> str:
    return f"sensitivity {group_digits(change)}"
