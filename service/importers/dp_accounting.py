"""Reader for dp_accounting: an event in the form of the named tuple that `DpEvent.to_named_tuple()` returns.

JSON represents an event as an object or as a list. The object is `_asdict()` of the named tuple: `module_name`,
`class_name` and the fields of the class, either beside these two or in a member `fields`. The list has the same values
in order (`json.dumps` of the tuple). An object `{"event": ..., "neighboring_relation": "REPLACE_ONE"}` also carries the
relation of the accountant. The classes are those of dp_accounting 0.6 (`dp_event.py`). Names are looked up in a table;
nothing is imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, final

from service.importers.composition import compose, repeat
from service.importers.dp_accounting_discrete import discrete_laplace, randomized_response
from service.importers.dp_accounting_notes import (
    FIXED_BATCHES,
    NO_OP,
    NO_RELATION,
    NO_THEOREM,
    NON_PRIVATE,
    ImportNotes,
)
from service.importers.reading import DraftSpec, ImportedRun, SourceValue, import_error

DESCRIPTION: Final = "dp_accounting (an event: an object, or a list, with module_name and class_name)"
MODULE: Final = "dp_accounting.dp_event"
NAMES: Final = ("module_name", "class_name")
WITH_RELATION: Final = ("event", "neighboring_relation")
RELATIONS: Final = {
    "ADD_OR_REMOVE_ONE": "add_or_remove_one",
    "REPLACE_ONE": "replace_one",
    "REPLACE_SPECIAL": "zero_out",
}
MOST_EVENTS: Final = 4000
TOO_MANY: Final = (
    f"An event may contain at most {MOST_EVENTS} events. Send equal events as SelfComposedDpEvent, and a long "
    "schedule as dpsgd with lists."
)


@final
@dataclass(frozen=True, slots=True)
class Event:
    """Class of dp_accounting events: the names of its fields in order, and a function that builds the mechanism.

    The function returns None if the event releases nothing.
    """

    fields: tuple[str, ...]
    build: Callable[[SourceValue, dict[str, SourceValue], ImportNotes], DraftSpec | None]


def matches(state: SourceValue) -> bool:
    """Return whether a state names a class of events, or pairs an event with a neighbouring relation."""
    named = state.as_list[: len(NAMES)]
    return (
        "class_name" in state.as_object
        or set(WITH_RELATION) <= state.as_object.keys()
        or (len(named) == len(NAMES) and all(isinstance(name, str) for name in named))
    )


def read_state(state: SourceValue) -> ImportedRun:
    """Return the mechanism that a dp_accounting event in `state` describes. Raise ValidationError.

    An event that releases nothing becomes pure DP with epsilon 0.
    """
    notes = ImportNotes()
    relation: SourceValue | None = None
    event = state
    if WITH_RELATION[1] in state.as_object:
        members = state.members(WITH_RELATION)
        event, relation = members[WITH_RELATION[0]], members[WITH_RELATION[1]]
        relation.one_of(RELATIONS)
        notes.relation = RELATIONS[relation.value]
    mechanism = _read(event, notes)
    if mechanism is None:
        mechanism = DraftSpec(event, type="pure_dp", epsilon=0.0)
    if relation is not None:
        named = RELATIONS[relation.value]
        if notes.needs_replacement and named == "add_or_remove_one":
            relation.reject(
                "RandomizedResponseDpEvent needs REPLACE_ONE or REPLACE_SPECIAL, because its record always answers."
            )
        threat_model = DraftSpec(relation, type="worst_case", neighboring_relation=named)
    elif notes.needs_replacement:
        threat_model = DraftSpec(event, type="worst_case", neighboring_relation="replace_one")
    else:
        threat_model = None
        notes.add(NO_RELATION)
    return ImportedRun(mechanism, threat_model, tuple(notes.sentences))


def _read(node: SourceValue, notes: ImportNotes) -> DraftSpec | None:
    notes.event_count += 1
    if notes.event_count > MOST_EVENTS:
        node.reject(TOO_MANY)
    kind, fields = _class_name_and_fields(node)
    return EVENTS[kind].build(node, fields, notes)


def _class_name_and_fields(node: SourceValue) -> tuple[str, dict[str, SourceValue]]:
    if isinstance(node.value, list):
        values = node.items()
        if len(values) < len(NAMES):
            node.reject("Must be an event with module_name, class_name and the fields of the class.")
        kind = _class(*values[:2])
        names = EVENTS[kind].fields
        if len(values) != len(NAMES) + len(names):
            node.reject(f"Must have {len(NAMES) + len(names)} values: {', '.join((*NAMES, *names))}.")
        return kind, dict(zip(names, values[2:], strict=True))
    sent = node.as_object
    missing = [
        ((*node.location, name), "Required: the names that to_named_tuple writes.")
        for name in NAMES
        if name not in sent
    ]
    if missing:
        raise import_error(*missing)
    kind = _class(*(SourceValue(sent[name], (*node.location, name)) for name in NAMES))
    names = EVENTS[kind].fields
    if "fields" in sent:
        return kind, node.members((*NAMES, "fields"))["fields"].members(names)
    members = node.members((*NAMES, *names))
    return kind, {name: members[name] for name in names}


def _class(module: SourceValue, name: SourceValue) -> str:
    if module.value != MODULE:
        module.reject(f"Must be {MODULE}. Other modules are unknown, and no module is ever imported.")
    if isinstance(name.value, str) and name.value in NO_THEOREM:
        name.reject(f"This event cannot be converted: {NO_THEOREM[name.value]}")
    if not (isinstance(name.value, str) and name.value in EVENTS):
        name.reject(f"Unknown event. The known events are: {', '.join(EVENTS)}.")
    return name.value


def _no_op(_: SourceValue, __: dict[str, SourceValue], notes: ImportNotes) -> None:
    notes.add(NO_OP)


def _non_private(node: SourceValue, _: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec:
    notes.add(NON_PRIVATE)
    return DraftSpec(node, type="approximate_dp", epsilon=0.0, delta=1.0)


def _builder_by_fields(
    kind: str, **names: str
) -> Callable[[SourceValue, dict[str, SourceValue], ImportNotes], DraftSpec]:
    return lambda node, fields, _: DraftSpec(
        node, type=kind, **{ours: fields[theirs] for ours, theirs in names.items()}
    )


def _epsilon_delta(node: SourceValue, fields: dict[str, SourceValue], _: ImportNotes) -> DraftSpec:
    epsilon, delta = fields["epsilon"], fields["delta"]
    if delta.value == 0 and type(delta.value) in (int, float):
        return DraftSpec(node, type="pure_dp", epsilon=epsilon)
    return DraftSpec(node, type="approximate_dp", epsilon=epsilon, delta=delta)


def _poisson_sampled(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec | None:
    inner = _read(fields["event"], notes)
    if inner is None:
        return None
    return DraftSpec(node, type="poisson_sampled", sample_rate=fields["sampling_probability"], mechanism=inner)


def _builder_for_fixed_batches(
    sampling: str,
) -> Callable[[SourceValue, dict[str, SourceValue], ImportNotes], DraftSpec]:
    def build(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec:
        kind, inner = _class_name_and_fields(fields["event"])
        if kind != "GaussianDpEvent":
            fields["event"].reject("Must be GaussianDpEvent, the only supported event on batches of a fixed size.")
        notes.add(FIXED_BATCHES)
        return DraftSpec(
            node,
            type="dpsgd",
            noise_multiplier=inner["noise_multiplier"],
            sampling=sampling,
            batch_size=fields["sample_size"],
            dataset_size=fields["source_dataset_size"],
            steps=1,
        )

    return build


def _self_composed(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec | None:
    inner = _read(fields["event"], notes)
    return None if inner is None else repeat(node, inner, fields["count"].as_count)


def _composed(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec | None:
    parts = [_read(each, notes) for each in fields["events"].items()]
    return compose(node, [part for part in parts if part is not None])


def _selected(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec | None:
    # the field `shape` selects the law of the number of runs; infinity is the Poisson law
    inner, shape = _read(fields["event"], notes), fields["shape"]
    if inner is None:
        return None
    if shape.value in (math.inf, "Infinity"):
        trials = DraftSpec(node, type="poisson", mean=fields["mean"])
    else:
        trials = DraftSpec(node, type="truncated_negative_binomial", mean=fields["mean"], shape=shape)
    return DraftSpec(node, type="selected", mechanism=inner, trials=trials, released="best")


def _zcdp(node: SourceValue, fields: dict[str, SourceValue], _: ImportNotes) -> DraftSpec:
    if fields["xi"].number(0.0, 1e6) > 0:
        fields["xi"].reject(
            'Must be 0. For a positive xi, send {"type": "rdp"} with the bounds xi + rho * order at some orders.'
        )
    return DraftSpec(node, type="zcdp", rho=fields["rho"])


EVENTS: Final[Mapping[str, Event]] = {
    "GaussianDpEvent": Event(
        ("noise_multiplier",), _builder_by_fields("gaussian", noise_multiplier="noise_multiplier")
    ),
    "LaplaceDpEvent": Event(("noise_multiplier",), _builder_by_fields("laplace", noise_multiplier="noise_multiplier")),
    "PoissonSampledDpEvent": Event(("sampling_probability", "event"), _poisson_sampled),
    "SelfComposedDpEvent": Event(("event", "count"), _self_composed),
    "ComposedDpEvent": Event(("events",), _composed),
    "SampledWithoutReplacementDpEvent": Event(
        ("source_dataset_size", "sample_size", "event"), _builder_for_fixed_batches("fixed_without_replacement")
    ),
    "SampledWithReplacementDpEvent": Event(
        ("source_dataset_size", "sample_size", "event"), _builder_for_fixed_batches("fixed_with_replacement")
    ),
    "MixtureOfGaussiansDpEvent": Event(
        ("standard_deviation", "sensitivities", "sampling_probs"),
        _builder_by_fields(
            "gaussian_mixture", noise_multiplier="standard_deviation", shifts="sensitivities", weights="sampling_probs"
        ),
    ),
    "EpsilonDeltaDpEvent": Event(("epsilon", "delta"), _epsilon_delta),
    "ExponentialMechanismDpEvent": Event(("epsilon",), _builder_by_fields("exponential", epsilon="epsilon")),
    "ZCDpEvent": Event(("rho", "xi"), _zcdp),
    "PermuteAndFlipDpEvent": Event(("epsilon",), _builder_by_fields("permute_and_flip", epsilon="epsilon")),
    "RepeatAndSelectDpEvent": Event(("event", "mean", "shape"), _selected),
    "RandomizedResponseDpEvent": Event(("noise_parameter", "num_buckets"), randomized_response),
    "DiscreteLaplaceDpEvent": Event(("noise_parameter", "sensitivity"), discrete_laplace),
    "NoOpDpEvent": Event((), _no_op),
    "NonPrivateDpEvent": Event((), _non_private),
}
"""Supported event classes. To support another class, add a row here."""
