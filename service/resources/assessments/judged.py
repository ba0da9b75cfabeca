"""Run that an assessment judges: the described run with the changes of all present hazards that change numbers.

If the hazard is real, the changed run reveals at least as much as the described run. Changes accumulate: each applies
to the run that the previous changes left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final

from pydantic import ValidationError

from api_schemas.assessment_context import AssessmentContext
from api_schemas.assessments import AssessmentsRequest
from api_schemas.assumptions_and_hazards import HazardCode
from api_schemas.bounds import BoundsRequest
from api_schemas.mechanisms import (
    ComposedMechanism,
    DpsgdMechanism,
    GaussianMechanism,
    GaussianMixtureMechanism,
    LaplaceMechanism,
    MechanismSpec,
    MixtureComponent,
    MixtureMechanism,
    NoisySgdMechanism,
    PoissonSampledMechanism,
    RepeatedMechanism,
    SelectedMechanism,
    nodes_of,
)
from api_schemas.questions import AdvantageQuestion
from api_schemas.threat_models import WorstCaseThreatModel
from api_schemas.training_runs import listed
from api_schemas.trials import LARGEST_TRIALS, FixedTrialCount, GeometricTrialCount
from service.rendering.numbers import rounded_up

RATE_AGREEMENT: Final = 0.01
"""Relative tolerance: rates are written with few digits."""

Maker: TypeAlias = Callable[[MechanismSpec], MechanismSpec | None]
ANY_QUESTION: Final = AdvantageQuestion(type="advantage")
Training: TypeAlias = DpsgdMechanism | NoisySgdMechanism | PoissonSampledMechanism


@final
@dataclass(frozen=True, slots=True)
class AssessedRun:
    """Training run to be assessed: mechanism, context, and the worst case as the attacker.

    The worst case counts the records of one privacy unit.
    """

    mechanism: MechanismSpec
    context: AssessmentContext
    threat_model: WorstCaseThreatModel
    composed: MechanismSpec | None = None
    """For a selection among tuning runs: the composition of all runs, which bounds the selection for all attackers."""

    @property
    def for_relaxed(self) -> MechanismSpec:
        """Mechanism for attackers weaker than the worst case: `composed`, or the mechanism itself without it."""
        return self.mechanism if self.composed is None else self.composed

    @staticmethod
    def of(request: AssessmentsRequest) -> AssessedRun:
        """Return the training run that the request for an assessment describes."""
        return AssessedRun(request.mechanism, request.context, request.threat_model)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the data set (numbers of records) that the context or the mechanism states."""
        return tuple(sorted({*self._named("dataset_size")}))

    @property
    def batches(self) -> tuple[int, ...]:
        """Sizes of batches (numbers of records) that the context or the mechanism states."""
        return tuple(sorted({*self._named("batch_size")}))

    @property
    def trains(self) -> bool:
        """Whether the mechanism has training steps over batches of records."""
        return any(isinstance(node, Training) for node in nodes_of(self.mechanism))

    def _named(self, name: Literal["dataset_size", "batch_size"]) -> Iterator[int]:
        held = [self.context, *(node for node in nodes_of(self.mechanism) if isinstance(node, Training))]
        yield from (size for each in held if (size := getattr(each, name, None)) is not None)


class Change(NamedTuple):
    """Change of the described training run by a hazard that is present.

    Attributes
    ----------
    make : callable
        Takes a mechanism and returns the changed one. Returns None, or raises ValidationError, if the changed run
        cannot be described.
    text : str
        Description of the changed run, to follow "the run".
    attained : bool
        Whether the changed run is the true run for some data, so that its lower bounds count as well. Otherwise the
        changed run only bounds the true run from above.
    """

    code: HazardCode
    text: str
    make: Maker
    attained: bool = False


@final
@dataclass(frozen=True, slots=True)
class RunWithHazards:
    """Run with the changes of its hazards.

    `changes` are those that are contained in `run`. `failed` lists the hazards whose changed run cannot be described.
    """

    run: AssessedRun
    changes: tuple[Change, ...] = ()
    failed: tuple[HazardCode, ...] = ()

    @property
    def is_attained(self) -> bool:
        """Whether lower bounds for the run with the changes are also lower bounds for the run that takes place.

        This holds if every change is attained (`Change.attained`).
        """
        return all(each.attained for each in self.changes)

    @property
    def text(self) -> str | None:
        """Sentence about the changes that hazards made to the run, or None without changes."""
        if not self.changes:
            return None
        return f"All numbers are for the run {', '.join(each.text for each in self.changes)}."

    def undone(self, run: AssessedRun) -> RunWithHazards:
        """Return the described run `run` without changes, and all hazards of the changes as failed."""
        return RunWithHazards(run, (), (*self.failed, *(each.code for each in self.changes)))


def judged(run: AssessedRun) -> RunWithHazards:
    """Return the run with the changes of all present hazards, applied one after the other."""
    found, failed, mechanism = list[Change](), list[HazardCode](), run.mechanism
    for change in changes(run):
        made = made_by(change, mechanism)
        if made is None:
            failed.append(change.code)
        else:
            mechanism = made
            found.append(change)
    composed = None
    if any(each.code == "tuning_not_accounted" for each in found) and isinstance(mechanism, SelectedMechanism):
        composed = _all_runs(mechanism.mechanism, run.context.tuning_runs or 1)
    return RunWithHazards(replace(run, mechanism=mechanism, composed=composed), tuple(found), tuple(failed))


def made_by(change: Change, mechanism: MechanismSpec) -> MechanismSpec | None:
    """Return `mechanism` after the change `change`, or None if the changed mechanism cannot be described."""
    try:
        made = change.make(mechanism)
        return None if made is None else BoundsRequest(mechanism=made, questions=(ANY_QUESTION,)).mechanism
    except ValidationError:
        return None


def changes(run: AssessedRun) -> list[Change]:
    """Return the changes of the hazards that are present in `run`, in the order of their application."""
    found = (_microbatches(run), _consistent_rate(run), _accumulation(run), _tuning(run))
    return [each for each in found if each is not None]


def _microbatches(run: AssessedRun) -> Change | None:
    context = run.context
    if context.microbatches_accounted or context.microbatch_size in (None, 1):
        return None
    text = "with half the noise multiplier, because clipped averages of several gradients have twice the sensitivity"
    # A replaced record reverses its average once. For an added record, half the noise has the same effect.
    is_attained = run.threat_model.neighboring_relation != "replace_one"
    return Change("microbatches_double_sensitivity", text, _half_the_noise, is_attained)


def _half_the_noise(spec: MechanismSpec) -> MechanismSpec | None:
    made = mapped(spec, _with_half_the_noise)
    return None if made == spec else made


def _with_half_the_noise(node: MechanismSpec) -> MechanismSpec | None:
    # One record may reverse a clipped average of gradients, which doubles the sensitivity. None: the noise relative to
    # a clipped average is unknown.
    match node:
        case DpsgdMechanism(noise_multiplier=tuple() as noises):
            return _remade(node, noise_multiplier=tuple(each / 2 for each in noises))
        case DpsgdMechanism(noise_multiplier=float() as noise):
            return _remade(node, noise_multiplier=noise / 2)
        case GaussianMechanism(noise_multiplier=noise):
            return GaussianMechanism(type="gaussian", noise_multiplier=noise / 2)
        case LaplaceMechanism(noise_multiplier=noise):
            return LaplaceMechanism(type="laplace", noise_multiplier=noise / 2)
        case PoissonSampledMechanism(sample_rate=rate, mechanism=inner):
            halved = _with_half_the_noise(inner)
            return halved and PoissonSampledMechanism(type="poisson_sampled", sample_rate=rate, mechanism=halved)
        case NoisySgdMechanism() | GaussianMixtureMechanism():
            return None
        case _:
            return node


def _consistent_rate(run: AssessedRun) -> Change | None:
    rate = inconsistent_rate(run)
    if rate is None:
        return None
    text = f"at the larger of the stated sampling rate and the rate of its batches, {rounded_up(rate)}"
    if any(_counts_epochs(node) for node in nodes_of(run.mechanism) if _stated_rates(node)):
        text += ", with the steps of its epochs at the smaller rate"
    return Change("sample_rate_inconsistent", text, partial(mapped, change=partial(_with_rate_at_least, rate=rate)))


def inconsistent_rate(run: AssessedRun) -> float | None:
    """Return the sampling rate of the batches in the context if a step of the mechanism cannot have it, else None.

    The rate is the batch size over the smallest stated size of the data set. A step cannot have it if all its stated
    rates are more than 1 % smaller, or all more than 1 % larger. The result is None if the context states no batch
    size, or no size of the data set is stated.
    """
    batch, sizes = run.context.batch_size, run.sizes
    if batch is None or not sizes:
        return None
    known = batch / min(sizes)
    stated = [rates for node in nodes_of(run.mechanism) if (rates := _stated_rates(node))]
    slack = RATE_AGREEMENT * known
    return known if any(known < min(rates) - slack or known > max(rates) + slack for rates in stated) else None


def _stated_rates(node: MechanismSpec) -> tuple[float, ...]:
    if isinstance(node, PoissonSampledMechanism):
        return (node.sample_rate,)
    if isinstance(node, DpsgdMechanism) and node.batch_size is None and node.sample_rate is not None:
        return listed(node.sample_rate)
    return ()


def _counts_epochs(node: MechanismSpec) -> bool:
    return isinstance(node, DpsgdMechanism) and node.epochs is not None and node.sampling != "shuffled"


def _with_rate_at_least(node: MechanismSpec, rate: float) -> MechanismSpec:
    # In a run described by epochs, the number of steps is that of these epochs at the smaller of both rates.
    match node:
        case PoissonSampledMechanism(sample_rate=stated, mechanism=inner):
            return PoissonSampledMechanism(type="poisson_sampled", sample_rate=max(stated, rate), mechanism=inner)
        case DpsgdMechanism() if _stated_rates(node):
            larger = _remade(node, sample_rate=_each(node, lambda stated: max(stated, rate)))
            if not _counts_epochs(node):
                return larger
            smaller = {"sample_rate": _each(node, lambda stated: min(stated, rate)), "steps": None}
            return _remade(larger, steps=_remade(node, **smaller, epochs=node.epochs).steps)
        case _:
            return node


def _each(node: DpsgdMechanism, change: Callable[[float], float]) -> float | tuple[float, ...]:
    rates = tuple(map(change, listed(node.sample_rate or 1.0)))
    return rates if isinstance(node.sample_rate, tuple) else rates[0]


def _accumulation(run: AssessedRun) -> Change | None:
    passes = run.context.gradient_accumulation_steps
    if passes is None or passes == 1 or not run.trains or batches_are_between_updates(run):
        return None
    text = f"with batches {passes} times as large, because the stated batches may be those of one backward pass"
    return Change(
        "gradient_accumulation_counted",
        text,
        partial(mapped, change=partial(_with_records_of_all_passes, passes=passes)),
    )


def batches_are_between_updates(run: AssessedRun) -> bool:
    """Return whether the sampling rate follows from the batch size in the context and the size of the data set.

    The batch size counts all records between two updates of the model. The result is False if one of both sizes is
    unknown, or if a step states several rates, because one batch size does not determine the rates of a schedule.
    """
    schedules = [node for node in nodes_of(run.mechanism) if len(set(_stated_rates(node))) > 1]
    return run.context.batch_size is not None and bool(run.sizes) and not schedules


def _with_records_of_all_passes(node: MechanismSpec, passes: int) -> MechanismSpec | None:
    # The step counts the records of all its backward passes. The number of steps does not grow.
    if isinstance(node, NoisySgdMechanism):
        return None  # a mean over more records moves less: its noise is unknown
    if isinstance(node, PoissonSampledMechanism):
        rate = min(node.sample_rate * passes, 1.0)
        return PoissonSampledMechanism(type="poisson_sampled", sample_rate=rate, mechanism=node.mechanism)
    if not isinstance(node, DpsgdMechanism):
        return node
    if node.batch_size is not None and node.dataset_size is not None:
        return _remade(node, batch_size=min(node.batch_size * passes, node.dataset_size))
    return _remade(node, sample_rate=_each(node, lambda stated: min(stated * passes, 1.0)))


def _tuning(run: AssessedRun) -> Change | None:
    runs = run.context.tuning_runs
    if runs is None or runs == 1:
        return None
    text = f"selected as the best of {runs} runs, by a score that may depend on the data"
    if runs > LARGEST_TRIALS:
        text = f"repeated {runs} times with all results released, because the best of {runs} runs was chosen"
    return Change("tuning_not_accounted", text, partial(_best_run, runs=runs))


def _best_run(spec: MechanismSpec, runs: int) -> MechanismSpec:
    # more runs than LARGEST_TRIALS are composed, as if all were released
    if runs > LARGEST_TRIALS:
        return _all_runs(spec, runs)
    return SelectedMechanism(type="selected", mechanism=spec, trials=FixedTrialCount(type="fixed", count=runs))


def drawn_run(spec: MechanismSpec, runs: int) -> MechanismSpec:
    """Return the selection among a random number of training runs of `spec`: geometric, with the mean `runs`."""
    return SelectedMechanism(
        type="selected", mechanism=spec, trials=GeometricTrialCount(type="geometric", mean=float(runs))
    )


def _all_runs(spec: MechanismSpec, runs: int) -> MechanismSpec:
    # the released run is a function of all runs
    return RepeatedMechanism(type="repeated", mechanism=spec, steps=runs)


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


def _remade(node: DpsgdMechanism, **changed: Any) -> DpsgdMechanism:
    # keeps the number of steps, or of shuffled epochs
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
