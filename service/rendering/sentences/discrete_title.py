"""Discrete and local mechanisms in words, as items of a title."""

from __future__ import annotations

from typing import Final

from api_schemas.discrete_mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    DiscreteMechanism,
    PermuteAndFlipMechanism,
    RandomizedResponseMechanism,
    ReportNoisyMaxMechanism,
    SkellamMechanism,
    SparseVectorMechanism,
    StaircaseMechanism,
    UnaryEncodingMechanism,
)
from service.rendering.numbers import format_exact, group_digits

NOISES: Final = {"gumbel": "Gumbel", "exponential": "exponential", "laplace": "Laplace"}


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
        case DiscreteGaussianMechanism(sigma=sigma, sensitivity=change, dimension=dimension):
            several = [] if dimension == 1 else [f"{group_digits(dimension)} coordinates"]
            return ["discrete Gaussian mechanism", f"sigma {format_exact(sigma)}", _sensitivity(change), *several]
        case SkellamMechanism(variance=variance, sensitivity=change):
            return ["Skellam mechanism", f"variance {format_exact(variance)}", _sensitivity(change)]
        case ReportNoisyMaxMechanism(noise=noise, scale=scale, sensitivity=change, monotone=monotone):
            kind = ["monotone scores"] if monotone else []
            numbers = f"scale {format_exact(scale)}", f"sensitivity {format_exact(change)}"
            return ["report noisy max", f"{NOISES[noise]} noise", *numbers, *kind]
        case PermuteAndFlipMechanism(epsilon=epsilon, monotone=monotone):
            return ["permute and flip", f"epsilon {format_exact(epsilon)}", *(["monotone scores"] if monotone else [])]
        case SparseVectorMechanism(threshold_epsilon=first, query_epsilon=second, positives=count):
            parts = f"epsilon {format_exact(first)} and {format_exact(second)}"
            return ["sparse vector technique", parts, f"{group_digits(count)} positive"]


def _sensitivity(change: int) -> str:
    return f"sensitivity {group_digits(change)}"
