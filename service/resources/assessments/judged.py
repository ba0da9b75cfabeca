"""Run that an assessment judges: the described run with the changes of all present hazards that change numbers.

If the hazard is real, the changed run reveals at least as much as the described run. Changes accumulate: each applies
to the run that the previous changes left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias, final

from pydantic import ValidationError

from api_schemas.assessment_context import AssessmentContext
from api_schemas.assessments import AssessmentsRequest
from api_schemas.assumptions_and_hazards import HazardCode
from api_schemas.bounds import BoundsRequest
from api_schemas.choices import NeighboringRelation
from api_schemas.mechanisms import (
    DpsgdMechanism,
    MechanismSpec,
    NoisySgdMechanism,
    PoissonSampledMechanism,
    RepeatedMechanism,
    SelectedMechanism,
    nodes_of,
)
from api_schemas.questions import AdvantageQuestion
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel, worst_case_beside
from api_schemas.training_runs import listed
from api_schemas.trials import LARGEST_TRIALS, FixedTrialCount, GeometricTrialCount
from service.rendering.numbers import rounded_up
from service.resources.assessments.changed_steps import Maker, mapped, remade
from service.resources.assessments.microbatches import half_the_noise, relations_attained

RATE_AGREEMENT: Final = 0.01
"""Relative tolerance: rates are written with few digits."""

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
    attained : frozenset of NeighboringRelation
        Relations under which the changed run is the true run for some data, so that its lower bounds count as well.
        Under others, the changed run only bounds the true run from above.
    """

    code: HazardCode
    text: str
    make: Maker
    attained: frozenset[NeighboringRelation] = frozenset()


@final
@dataclass(frozen=True, slots=True)
class RunWithHazards:
    """Run with the changes of its hazards.

    `changes` are those that are contained in `run`. `failed` lists the hazards whose changed run cannot be described.
    """

    run: AssessedRun
    changes: tuple[Change, ...] = ()
    failed: tuple[HazardCode, ...] = ()

    def is_attained(self, attacker: ThreatModelSpec | None) -> bool:
        """Return whether lower bounds for the run with the changes are also lower bounds for the run that takes place.

        This holds if every change is attained (`Change.attained`) under the neighbouring relation of the worst case
        beside `attacker`, or of the run without an attacker.
        """
        faced = self.run.threat_model if attacker is None else worst_case_beside((attacker,), self.run.mechanism)
        return all(faced.neighboring_relation in each.attained for each in self.changes)

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
    return Change("microbatches_double_sensitivity", text, half_the_noise, relations_attained(run.mechanism))


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
            larger = remade(node, sample_rate=_each(node, lambda stated: max(stated, rate)))
            if not _counts_epochs(node):
                return larger
            smaller = {"sample_rate": _each(node, lambda stated: min(stated, rate)), "steps": None}
            return remade(larger, steps=remade(node, **smaller, epochs=node.epochs).steps)
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
        return remade(node, batch_size=min(node.batch_size * passes, node.dataset_size))
    return remade(node, sample_rate=_each(node, lambda stated: min(stated * passes, 1.0)))


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
