"""Runs in words: titles for readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from api_schemas.discrete_mechanisms import DiscreteMechanism
from api_schemas.mechanisms import (
    ApproximateDpMechanism,
    ComposedMechanism,
    DpsgdMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    GaussianMixtureMechanism,
    GdpMechanism,
    LaplaceMechanism,
    MechanismSpec,
    MixtureMechanism,
    NoisySgdMechanism,
    PoissonSampledMechanism,
    PureDpMechanism,
    RepeatedMechanism,
    SelectedMechanism,
    ShuffledReportsMechanism,
)
from api_schemas.stated_divergences import RdpMechanism, ZcdpMechanism
from api_schemas.training_runs import listed
from api_schemas.trials import (
    BinomialTrialCount,
    FixedTrialCount,
    GeometricTrialCount,
    NegativeBinomialTrialCount,
    PoissonTrialCount,
    TrialCountSpec,
)
from service.rendering.numbers import format_exact, group_digits, percent_exact
from service.rendering.sentences.discrete_title import discrete_items

LONGEST_TITLE: Final = 160
MORE: Final = "…"
SHORTEST_PART: Final = 24
"""Smallest number of characters for a part of a composition. With less space the part is omitted."""


def run_title(mechanism: MechanismSpec, longest: int = LONGEST_TITLE) -> str:
    """Return a mechanism in words, with at most `longest` characters.

    Items that do not fit are omitted completely, and an ellipsis replaces them; it may be the whole title.
    """
    match mechanism:
        case RepeatedMechanism(mechanism=inner, steps=steps):
            return _title_around(inner, _times(steps), longest)
        case PoissonSampledMechanism(mechanism=inner, sample_rate=rate):
            return _title_around(inner, f"sampled at rate {format_exact(rate)}", longest)
        case SelectedMechanism(mechanism=inner, trials=trials, released=released):
            return _title_around(inner, f"{released} of {_trials_in_words(trials)}", longest)
        case ComposedMechanism(mechanisms=[alone]):
            return run_title(alone, longest)
        case ComposedMechanism(mechanisms=parts):
            return _title_with_parts(
                f"{group_digits(len(parts))} mechanisms: ", (("", part) for part in parts), longest
            )
        case MixtureMechanism(components=parts):
            weighted = ((f"{percent_exact(part.weight)} ", part.mechanism) for part in parts)
            return _title_with_parts("one drawn of: ", weighted, longest)
        case _:
            return joined(_items(mechanism), longest)


def joined(items: Iterable[str], longest: int, separator: str = ", ") -> str:
    """Join as many complete `items` by `separator` as fit into `longest` characters.

    An ellipsis replaces the others.
    """
    found, kept = list(items), ""
    for index, item in enumerate(found):
        text = f"{kept}{separator if index else ''}{item}"
        room = longest if index == len(found) - 1 else longest - len(separator) - len(MORE)
        if len(text) > room:
            return f"{kept}{separator if kept else ''}{MORE}"
        kept = text
    return kept


def _title_around(inner: MechanismSpec, item: str, longest: int) -> str:
    room = longest - len(item) - len("(), ")
    if room < SHORTEST_PART:
        return MORE
    title = run_title(inner, room)
    return f"({title}), {item}" if _is_list(inner) else f"{title}, {item}"


def _title_with_parts(head: str, parts: Iterable[tuple[str, MechanismSpec]], longest: int) -> str:
    text, separator = head, "; "
    for index, (before, part) in enumerate(parts):
        start = f"{separator if index else ''}{before}"
        room = longest - len(text) - len(start) - len(separator) - len(MORE)
        if room < SHORTEST_PART:
            return f"{text}{separator if index else ''}{MORE}"
        text += start + (f"({run_title(part, room - 2)})" if _is_list(part) else run_title(part, room))
    return text


def _is_list(mechanism: MechanismSpec) -> bool:
    is_composed = isinstance(mechanism, ComposedMechanism) and len(mechanism.mechanisms) > 1
    return is_composed or isinstance(mechanism, MixtureMechanism)


def _items(mechanism: MechanismSpec) -> list[str]:
    if isinstance(mechanism, DiscreteMechanism):
        return discrete_items(mechanism)
    match mechanism:
        case ShuffledReportsMechanism():
            return [*_shuffled(mechanism)]
        case GaussianMechanism(noise_multiplier=noise):
            return ["Gaussian mechanism", f"noise {format_exact(noise)}"]
        case LaplaceMechanism(noise_multiplier=noise):
            return ["Laplace mechanism", f"noise {format_exact(noise)}"]
        case GaussianMixtureMechanism(noise_multiplier=noise, shifts=shifts):
            return ["Gaussian mechanism", f"noise {format_exact(noise)}", _shifts(shifts)]
        case ExponentialMechanism(epsilon=epsilon):
            return ["exponential mechanism", f"epsilon {format_exact(epsilon)}"]
        case DpsgdMechanism():
            return [*_training(mechanism)]
        case NoisySgdMechanism():
            return [*_noisy_sgd(mechanism)]
        case _:
            return _stated_items(mechanism)


def _shuffled(mechanism: ShuffledReportsMechanism) -> Iterator[str]:
    yield f"{group_digits(mechanism.reports)} shuffled reports"
    yield from _items(mechanism.randomizer)
    if mechanism.others_holding_one is not None:
        yield f"{group_digits(mechanism.others_holding_one)} others hold 1"


def _stated_items(mechanism: MechanismSpec) -> list[str]:
    match mechanism:
        case GdpMechanism(mu=mu):
            return [f"stated mu {format_exact(mu)}"]
        case PureDpMechanism(epsilon=epsilon):
            return [f"stated epsilon {format_exact(epsilon)}"]
        case ApproximateDpMechanism(epsilon=epsilon, delta=delta):
            return [f"stated epsilon {format_exact(epsilon)} and delta {format_exact(delta)}"]
        case ZcdpMechanism(rho=rho):
            return [f"stated rho {format_exact(rho)}"]
        case RdpMechanism(orders=orders):
            return ["stated Renyi divergences", _orders(orders)]
        case _:
            return [f"{mechanism.type.replace('_', ' ')} mechanism"]


def _orders(orders: Sequence[float | str]) -> str:
    names = ["infinity" if isinstance(order, str) else format_exact(order) for order in (orders[0], orders[-1])]
    return f"order {names[0]}" if len(orders) == 1 else f"{group_digits(len(orders))} orders {names[0]} to {names[1]}"


def _shifts(shifts: Sequence[float]) -> str:
    if len(shifts) == 1:
        return f"shift {format_exact(shifts[0])}"
    return f"{group_digits(len(shifts))} random shifts up to {format_exact(max(shifts))}"


def _training(run: DpsgdMechanism) -> Iterator[str]:
    yield "DP-SGD"
    yield f"noise {_range(run.noise_multiplier)}"
    yield _batches(run)
    yield _length(run)
    if run.sampling == "shuffled" and run.reshuffled is False:
        yield "one order for all epochs"


def _batches(run: DpsgdMechanism) -> str:
    kind = {
        "poisson": ("", ""),
        "fixed_without_replacement": ("fixed ", ""),
        "fixed_with_replacement": ("", " drawn with replacement"),
        "shuffled": ("shuffled ", ""),
    }
    before, after = kind[run.sampling]
    if run.batch_size is not None and run.dataset_size is not None:
        return f"{before}batches of {group_digits(run.batch_size)} of {group_digits(run.dataset_size)}{after}"
    rates = run.sample_rate or 1.0
    named = "rates" if isinstance(rates, tuple) and len(set(rates)) > 1 else "rate"
    if run.sampling == "poisson":
        return f"sampling {named} {_range(rates)}"
    return f"{before}batches{after} at {named} {_range(rates)}"


def _length(run: DpsgdMechanism) -> str:
    phases = run.phases
    if run.epochs is None:
        steps = _numbered(run.total_steps, "step")
        return steps if phases == 1 else f"{steps} in {group_digits(phases)} phases"
    epochs = f"{format_exact(run.epochs)} epoch{'' if run.epochs == 1 else 's'}"
    if run.epochs.is_integer():
        epochs = _numbered(int(run.epochs), "epoch")
    return epochs if phases == 1 else f"{epochs} in each of {group_digits(phases)} phases"


def _noisy_sgd(run: NoisySgdMechanism) -> Iterator[str]:
    yield "noisy SGD"
    yield f"noise of standard deviation {format_exact(run.noise_std)}"
    yield f"batches of {group_digits(run.batch_size)} of {group_digits(run.dataset_size)}"
    yield _numbered(run.steps, "step")
    yield f"dimension {group_digits(run.dimension)}"
    yield "no clipping" if run.max_grad_norm is None else f"gradients clipped to {format_exact(run.max_grad_norm)}"
    if run.susceptibility is not None:
        yield f"susceptibility {format_exact(run.susceptibility)}"


def _range(value: float | tuple[float, ...]) -> str:
    low, high = min(listed(value)), max(listed(value))
    return format_exact(low) if low == high else f"{format_exact(low)} to {format_exact(high)}"


def _numbered(number: int, noun: str) -> str:
    return f"{group_digits(number)} {noun}{'' if number == 1 else 's'}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{group_digits(number)} times"


def _trials_in_words(trials: TrialCountSpec) -> str:
    match trials:
        case FixedTrialCount(count=count):
            return _numbered(count, "trial")
        case GeometricTrialCount(mean=mean):
            return f"a geometric number of trials, mean {format_exact(mean)}"
        case NegativeBinomialTrialCount(mean=mean, shape=shape):
            return f"a negative binomial number of trials, mean {format_exact(mean)}, shape {format_exact(shape)}"
        case PoissonTrialCount(mean=mean):
            return f"a Poisson number of trials, mean {format_exact(mean)}"
        case BinomialTrialCount(count=count, probability=share):
            return f"up to {_numbered(count, 'trial')}, each run with probability {format_exact(share)}"
