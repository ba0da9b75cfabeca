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
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, final

from service.importers.composition import compose, repeat
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
ROUND_UP_FACTOR: Final = 1 + 2.0**-48
"""Factor that exceeds the rounding errors of a few operations in doubles."""

NO_RELATION: Final = (
    "An event does not state the neighbouring relation. Without threat_model, a record is added or removed."
)
NO_OP: Final = "NoOpDpEvent releases nothing and is omitted."
NON_PRIVATE: Final = "NonPrivateDpEvent guarantees nothing and becomes (0, 1)-DP, which every mechanism satisfies."
RESPONSE: Final = (
    "RandomizedResponseDpEvent becomes randomized_response for a replaced record, with epsilon ln(1 + k (1 - p)/p) "
    "for k = num_buckets and p = noise_parameter, rounded up. Under REPLACE_SPECIAL it becomes "
    "pure_dp with this epsilon, which is an upper bound."
)
DISCRETE: Final = (
    "DiscreteLaplaceDpEvent becomes discrete_laplace with scale 1/noise_parameter, rounded down. The sensitivity is "
    "that of an added or removed record, and twice as large under REPLACE_ONE. Beyond the limits of that mechanism, it "
    "becomes pure_dp with epsilon noise_parameter * sensitivity, which is an upper bound."
)
LARGEST_SHIFT: Final = 10_000
"""Largest sensitivity of the mechanism `discrete_laplace`."""
SCALES: Final = (1e-3, 1e9)
"""Smallest and largest scale of the mechanism `discrete_laplace`."""

PERMUTE_AND_FLIP: Final = "PermuteAndFlipDpEvent becomes pure_dp with the same epsilon, which is an upper bound."
FIXED_BATCHES: Final = (
    "Batches of a fixed size use add_or_remove_one without a threat_model. RdpAccountant accepts them only "
    "under REPLACE_ONE."
)

NO_THEOREM: Final[Mapping[str, str]] = {
    "DiscreteGaussianDpEvent": "the event is not read. Send the mechanism discrete_gaussian with sigma and "
    "sensitivity.",
    "TruncatedSubsampledGaussianDpEvent": "no theorem here covers truncated Poisson batches. Send "
    "PoissonSampledDpEvent only if no batch was truncated, and otherwise "
    "EpsilonDeltaDpEvent with the proved parameters.",
    "SingleEpochTreeAggregationDpEvent": "tree aggregation is not supported. If every record is in one leaf, send "
    "GaussianDpEvent for a zeroed-out record. Its noise_multiplier is divided "
    "by the root of the depth ceil(log2(largest step count + 1)).",
    "RepeatAndSelectDpEvent": "the best of several runs is not read from an event. Send the mechanism selected with "
    "the run and the law of the number of trials.",
    "UnsupportedDpEvent": "the event stands for a mechanism without a description. Send the mechanism that was run.",
}
"""Known events that are not imported, with the reason and a remedy."""


@final
@dataclass(slots=True)
class ImportNotes:
    """Notes about dp_accounting events that the mechanism itself does not express.

    `sentences` are facts for the reader of the answer. `needs_replacement` is True if an event is valid only for
    replaced records. `relation` is the neighbouring relation of the state, or None if the state has none.
    """

    sentences: list[str] = field(default_factory=list[str])
    needs_replacement: bool = False
    event_count: int = 0
    relation: str | None = None

    def add(self, sentence: str) -> None:
        """Append a sentence unless the list already contains it."""
        if sentence not in self.sentences:
            self.sentences.append(sentence)


@final
@dataclass(frozen=True, slots=True)
class Event:
    """Class of dp_accounting events: the names of its fields in order, and a function that builds the mechanism.

    The function is None if the event releases nothing.
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
    """Return the mechanism that a dp_accounting event in `state` describes. Raise ValidationError."""
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
    kind, fields = _destructure(node)
    return EVENTS[kind].build(node, fields, notes)


def _destructure(node: SourceValue) -> tuple[str, dict[str, SourceValue]]:
    """Return the class name of an event and its fields by name."""
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


def _same_fields(kind: str, **names: str) -> Callable[[SourceValue, dict[str, SourceValue], ImportNotes], DraftSpec]:
    """Return a function that builds the mechanism of an event with equivalent fields.

    `names` maps our field names to those of the event.
    """
    return lambda node, fields, _: DraftSpec(
        node, type=kind, **{ours: fields[theirs] for ours, theirs in names.items()}
    )


def _epsilon_delta(node: SourceValue, fields: dict[str, SourceValue], _: ImportNotes) -> DraftSpec:
    epsilon, delta = fields["epsilon"], fields["delta"]
    if delta.value == 0 and type(delta.value) in (int, float):
        return DraftSpec(node, type="pure_dp", epsilon=epsilon)
    return DraftSpec(node, type="approximate_dp", epsilon=epsilon, delta=delta)


def _randomized_response(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec:
    """Return k-ary randomised response with epsilon = ln(1 + k (1 - p)/p).

    Here p is the noise parameter and k the number of buckets. The true bucket is reported with probability 1 - p + p/k,
    every other bucket with probability p/k. Rounding epsilon up is safe: a report with the larger epsilon can be
    perturbed further to a report with the smaller epsilon.
    """
    noise, buckets = fields["noise_parameter"].number(1e-290, 1.0), fields["num_buckets"].integer(1, 10**12)
    notes.add(RESPONSE)
    notes.needs_replacement = True
    epsilon = math.log1p(buckets * (1 - noise) / noise) * ROUND_UP_FACTOR if buckets > 1 else 0.0
    located = SourceValue(epsilon, fields["noise_parameter"].location)
    if buckets == 1 or notes.relation == "zero_out":
        return DraftSpec(node, type="pure_dp", epsilon=located)
    return DraftSpec(node, type="randomized_response", epsilon=located, options=fields["num_buckets"])


def _discrete_laplace(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec:
    """Return discrete Laplace noise of scale 1/noise_parameter, or pure DP beyond the limits of that mechanism.

    Rounding the scale down is safe: further independent noise turns discrete Laplace noise into noise of any larger
    scale. A replaced record moves the query by up to twice the sensitivity of an added or removed record.
    """
    # At 0 noise would be spread over all integers, which no law is: the library counts it as no privacy at all.
    parameter, sensitivity = fields["noise_parameter"].number(1e-290, 1e6), fields["sensitivity"].integer(1, 10**12)
    notes.add(DISCRETE)
    shift = 2 * sensitivity if notes.relation == "replace_one" else sensitivity
    location = fields["noise_parameter"].location
    scale = 1 / parameter
    if Fraction(scale) * Fraction(parameter) > 1:
        scale = math.nextafter(scale, 0.0)
    if shift <= LARGEST_SHIFT and SCALES[0] <= scale <= SCALES[1]:
        moved = SourceValue(shift, fields["sensitivity"].location)
        return DraftSpec(node, type="discrete_laplace", scale=SourceValue(scale, location), sensitivity=moved)
    exact = parameter if shift == 1 else parameter * shift * ROUND_UP_FACTOR
    return DraftSpec(node, type="pure_dp", epsilon=SourceValue(exact, location))


def _permute_and_flip(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec:
    notes.add(PERMUTE_AND_FLIP)
    return DraftSpec(node, type="pure_dp", epsilon=fields["epsilon"])


def _poisson_sampled(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec | None:
    inner = _read(fields["event"], notes)
    if inner is None:
        return None
    return DraftSpec(node, type="poisson_sampled", sample_rate=fields["sampling_probability"], mechanism=inner)


def _fixed(sampling: str) -> Callable[[SourceValue, dict[str, SourceValue], ImportNotes], DraftSpec]:
    """Return a function that builds the mechanism of Gaussian noise on batches of a fixed size.

    `sampling` names the method of sampling. The function rejects other events on such batches.
    """

    def build(node: SourceValue, fields: dict[str, SourceValue], notes: ImportNotes) -> DraftSpec:
        kind, inner = _destructure(fields["event"])
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


def _zcdp(node: SourceValue, fields: dict[str, SourceValue], _: ImportNotes) -> DraftSpec:
    """Return (xi, rho)-zCDP, whose divergences D_a are at most xi + rho a, for xi = 0."""
    if fields["xi"].number(0.0, 1e6) > 0:
        fields["xi"].reject(
            'Must be 0. For a positive xi, send {"type": "rdp"} with the bounds xi + rho * order at some orders.'
        )
    return DraftSpec(node, type="zcdp", rho=fields["rho"])


EVENTS: Final[Mapping[str, Event]] = {
    "GaussianDpEvent": Event(("noise_multiplier",), _same_fields("gaussian", noise_multiplier="noise_multiplier")),
    "LaplaceDpEvent": Event(("noise_multiplier",), _same_fields("laplace", noise_multiplier="noise_multiplier")),
    "PoissonSampledDpEvent": Event(("sampling_probability", "event"), _poisson_sampled),
    "SelfComposedDpEvent": Event(("event", "count"), _self_composed),
    "ComposedDpEvent": Event(("events",), _composed),
    "SampledWithoutReplacementDpEvent": Event(
        ("source_dataset_size", "sample_size", "event"), _fixed("fixed_without_replacement")
    ),
    "SampledWithReplacementDpEvent": Event(
        ("source_dataset_size", "sample_size", "event"), _fixed("fixed_with_replacement")
    ),
    "MixtureOfGaussiansDpEvent": Event(
        ("standard_deviation", "sensitivities", "sampling_probs"),
        _same_fields(
            "gaussian_mixture", noise_multiplier="standard_deviation", shifts="sensitivities", weights="sampling_probs"
        ),
    ),
    "EpsilonDeltaDpEvent": Event(("epsilon", "delta"), _epsilon_delta),
    "ExponentialMechanismDpEvent": Event(("epsilon",), _same_fields("exponential", epsilon="epsilon")),
    "ZCDpEvent": Event(("rho", "xi"), _zcdp),
    "PermuteAndFlipDpEvent": Event(("epsilon",), _permute_and_flip),
    "RandomizedResponseDpEvent": Event(("noise_parameter", "num_buckets"), _randomized_response),
    "DiscreteLaplaceDpEvent": Event(("noise_parameter", "sensitivity"), _discrete_laplace),
    "NoOpDpEvent": Event((), _no_op),
    "NonPrivateDpEvent": Event((), _non_private),
}
"""Supported event classes. To support another class, add a row here."""
