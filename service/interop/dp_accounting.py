"""dp_accounting: an event, as the named tuple that `DpEvent.to_named_tuple()` makes.

In JSON it is an object (`_asdict()`: `module_name`, `class_name` and the fields of the class, in a member `fields` of
their own or beside both), or a list of the same values in their order (`json.dumps` of the tuple). With
`{"event": ..., "neighboring_relation": "REPLACE_ONE"}` the relation of the accountant comes along. Classes are those of
dp_accounting 0.6 and of its repository (`dp_event.py`); their names are looked up in a table, and nothing is imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, final

from service.interop.composition import composed, repeated
from service.interop.reading import ImportedRun, Node, Spec, refusal

WHAT: Final = "dp_accounting (an event: an object, or a list, with module_name and class_name)"
MODULE: Final = "dp_accounting.dp_event"
NAMES: Final = ("module_name", "class_name")
WRAPPED: Final = ("event", "neighboring_relation")
RELATIONS: Final = {
    "ADD_OR_REMOVE_ONE": "add_or_remove_one",
    "REPLACE_ONE": "replace_one",
    "REPLACE_SPECIAL": "zero_out",
}
MOST_EVENTS: Final = 4000
TOO_MANY: Final = (
    f"An event may hold at most {MOST_EVENTS} events. Send equal ones as SelfComposedDpEvent, and a long schedule as "
    "dpsgd with lists."
)
UPWARD: Final = 1 + 2.0**-48
"""More than what a few operations in doubles lose."""

NO_RELATION: Final = (
    "An event does not say which data sets are neighbours: where no threat_model is sent, a record is added or removed."
)
NOTHING_HAPPENED: Final = "NoOpDpEvent releases nothing, and is left out."
ALL_IS_LOST: Final = "NonPrivateDpEvent gives no privacy at all: it is written as (0, 1)-DP, which nothing violates."
RESPONSE: Final = (
    "RandomizedResponseDpEvent becomes pure_dp with epsilon ln(1 + k (1 - p)/p) of k = num_buckets and p = "
    "noise_parameter, rounded up: exact for two buckets, an upper bound for more, whose third outcomes tell nothing. "
    "It holds for a record that is replaced."
)
DISCRETE: Final = (
    "DiscreteLaplaceDpEvent becomes pure_dp with epsilon noise_parameter * sensitivity: exact for a sensitivity of 1, "
    "an upper bound for more. It holds for a record that is added or removed; replacing one doubles it."
)
FLIPPED: Final = "PermuteAndFlipDpEvent becomes pure_dp with its epsilon: an upper bound."
FIXED_BATCHES: Final = (
    "Batches of a fixed size are answered for under add_or_remove_one where nothing else is sent; RdpAccountant takes "
    "them under REPLACE_ONE alone."
)

NO_THEOREM: Final[Mapping[str, str]] = {
    "ZCDpEvent": "no bound here is read off a zCDP parameter. Send the mechanism that has it: GaussianDpEvent with "
    "noise_multiplier 1/sqrt(2 rho) where Gaussian noise was added.",
    "DiscreteGaussianDpEvent": "no theorem here bounds discrete by continuous Gaussian noise. Send EpsilonDeltaDpEvent "
    "with what was proved for the release.",
    "TruncatedSubsampledGaussianDpEvent": "no theorem here covers Poisson batches that are cut where they are too "
    "long. Send PoissonSampledDpEvent only if none was ever cut, else EpsilonDeltaDpEvent with what was proved.",
    "SingleEpochTreeAggregationDpEvent": "trees are not served. Where every record is in one leaf the run is, for a "
    "record that is zeroed out, GaussianDpEvent with noise_multiplier over the root of the depth, "
    "ceil(log2(largest step count + 1)).",
    "RepeatAndSelectDpEvent": "choosing the best of several runs is not served. Send EpsilonDeltaDpEvent with what was "
    "proved for the choice, or ComposedDpEvent of all runs where all are counted.",
    "UnsupportedDpEvent": "it stands for a mechanism that nobody has described. Send what was run in its place.",
}
"""Events that are known and cannot be carried over."""


@final
@dataclass(slots=True)
class EventNotes:
    """What reading the events brings up beside the mechanism."""

    notes: list[str] = field(default_factory=list[str])
    replaces: bool = False
    events: int = 0

    def note(self, sentence: str) -> None:
        """Say it once."""
        if sentence not in self.notes:
            self.notes.append(sentence)


@final
@dataclass(frozen=True, slots=True)
class Event:
    """A class of events: its fields in their order, and what an event of it becomes (None: nothing happened)."""

    fields: tuple[str, ...]
    made: Callable[[Node, dict[str, Node], EventNotes], Spec | None]


def looks_like(state: Node) -> bool:
    """Whether it names a class of events, or says beside an event which data sets are neighbours."""
    named = state.listed[: len(NAMES)]
    return (
        "class_name" in state.held
        or set(WRAPPED) <= state.held.keys()
        or (len(named) == len(NAMES) and all(isinstance(name, str) for name in named))
    )


def read(state: Node) -> ImportedRun:
    """The mechanism of the event. Raises ValidationError."""
    said = EventNotes()
    relation: Node | None = None
    event = state
    if WRAPPED[1] in state.held:
        members = state.members(WRAPPED)
        event, relation = members[WRAPPED[0]], members[WRAPPED[1]]
        relation.word(RELATIONS)
    mechanism = _read(event, said)
    if mechanism is None:
        mechanism = Spec(event, type="pure_dp", epsilon=0.0)
    if relation is not None:
        named = RELATIONS[relation.value]
        if said.replaces and named == "add_or_remove_one":
            relation.refuse(
                "RandomizedResponseDpEvent needs REPLACE_ONE or REPLACE_SPECIAL: its record always answers."
            )
        threat_model = Spec(relation, type="worst_case", neighboring_relation=named)
    elif said.replaces:
        threat_model = Spec(event, type="worst_case", neighboring_relation="replace_one")
    else:
        threat_model = None
        said.note(NO_RELATION)
    return ImportedRun(mechanism, threat_model, tuple(said.notes))


def _read(node: Node, said: EventNotes) -> Spec | None:
    said.events += 1
    if said.events > MOST_EVENTS:
        node.refuse(TOO_MANY)
    kind, fields = _taken_apart(node)
    return EVENTS[kind].made(node, fields, said)


def _taken_apart(node: Node) -> tuple[str, dict[str, Node]]:
    """The class of an event, from the table, and its fields."""
    if isinstance(node.value, list):
        values = node.items()
        if len(values) < len(NAMES):
            node.refuse("Must be an event: module_name, class_name and the fields of the class.")
        kind = _class(*values[:2])
        names = EVENTS[kind].fields
        if len(values) != len(NAMES) + len(names):
            node.refuse(f"Must have {len(NAMES) + len(names)} values: {', '.join((*NAMES, *names))}.")
        return kind, dict(zip(names, values[2:], strict=True))
    sent = node.held
    missing = [
        ((*node.place, name), "Required: the names that to_named_tuple writes.") for name in NAMES if name not in sent
    ]
    if missing:
        raise refusal(*missing)
    kind = _class(*(Node(sent[name], (*node.place, name)) for name in NAMES))
    names = EVENTS[kind].fields
    if "fields" in sent:
        return kind, node.members((*NAMES, "fields"))["fields"].members(names)
    members = node.members((*NAMES, *names))
    return kind, {name: members[name] for name in names}


def _class(module: Node, name: Node) -> str:
    """The name of a class of the table."""
    if module.value != MODULE:
        module.refuse(f"Must be {MODULE}: other modules are not known, and none is ever imported.")
    if isinstance(name.value, str) and name.value in NO_THEOREM:
        name.refuse(f"This event cannot be carried over: {NO_THEOREM[name.value]}")
    if not (isinstance(name.value, str) and name.value in EVENTS):
        name.refuse(f"Not an event that is known here. Known are: {', '.join(EVENTS)}.")
    return name.value


def _nothing(_: Node, __: dict[str, Node], said: EventNotes) -> None:
    said.note(NOTHING_HAPPENED)


def _lost(node: Node, _: dict[str, Node], said: EventNotes) -> Spec:
    said.note(ALL_IS_LOST)
    return Spec(node, type="approximate_dp", epsilon=0.0, delta=1.0)


def _plain(kind: str, **names: str) -> Callable[[Node, dict[str, Node], EventNotes], Spec]:
    """An event with the same meaning here: `names` of our fields and of theirs."""
    return lambda node, fields, _: Spec(node, type=kind, **{ours: fields[theirs] for ours, theirs in names.items()})


def _stated(node: Node, fields: dict[str, Node], _: EventNotes) -> Spec:
    epsilon, delta = fields["epsilon"], fields["delta"]
    if delta.value == 0 and type(delta.value) in (int, float):
        return Spec(node, type="pure_dp", epsilon=epsilon)
    return Spec(node, type="approximate_dp", epsilon=epsilon, delta=delta)


def _randomized_response(node: Node, fields: dict[str, Node], said: EventNotes) -> Spec:
    """epsilon = ln(1 + k (1 - p)/p): what is answered has probability 1 - p + p/k, everything else p/k."""
    noise, buckets = fields["noise_parameter"].number(1e-290, 1.0), fields["num_buckets"].integer(1, 10**12)
    said.note(RESPONSE)
    said.replaces = True
    epsilon = math.log1p(buckets * (1 - noise) / noise) * UPWARD if buckets > 1 else 0.0
    return Spec(node, type="pure_dp", epsilon=Node(epsilon, fields["noise_parameter"].place))


def _discrete_laplace(node: Node, fields: dict[str, Node], said: EventNotes) -> Spec:
    """Losses are at most noise_parameter * sensitivity; with a sensitivity of 1 every loss is that, or minus that."""
    # At 0 noise would be spread over all integers, which no law is: the library counts it as no privacy at all.
    parameter, sensitivity = fields["noise_parameter"].number(1e-290, 1e6), fields["sensitivity"].integer(1, 10**12)
    said.note(DISCRETE)
    exact = parameter if sensitivity == 1 else parameter * sensitivity * UPWARD
    epsilon = Node(exact, fields["noise_parameter"].place)
    return Spec(node, type="pure_dp", epsilon=epsilon)


def _permute_and_flip(node: Node, fields: dict[str, Node], said: EventNotes) -> Spec:
    said.note(FLIPPED)
    return Spec(node, type="pure_dp", epsilon=fields["epsilon"])


def _poisson_sampled(node: Node, fields: dict[str, Node], said: EventNotes) -> Spec | None:
    inner = _read(fields["event"], said)
    if inner is None:
        return None
    return Spec(node, type="poisson_sampled", sample_rate=fields["sampling_probability"], mechanism=inner)


def _fixed(sampling: str) -> Callable[[Node, dict[str, Node], EventNotes], Spec]:
    """Batches of a fixed size of Gaussian noise, which alone is served on them."""

    def made(node: Node, fields: dict[str, Node], said: EventNotes) -> Spec:
        kind, inner = _taken_apart(fields["event"])
        if kind != "GaussianDpEvent":
            fields["event"].refuse("Must be GaussianDpEvent: nothing else is served on batches of a fixed size.")
        said.note(FIXED_BATCHES)
        return Spec(
            node,
            type="dpsgd",
            noise_multiplier=inner["noise_multiplier"],
            sampling=sampling,
            batch_size=fields["sample_size"],
            dataset_size=fields["source_dataset_size"],
            steps=1,
        )

    return made


def _self_composed(node: Node, fields: dict[str, Node], said: EventNotes) -> Spec | None:
    inner = _read(fields["event"], said)
    return None if inner is None else repeated(node, inner, fields["count"].count)


def _composed(node: Node, fields: dict[str, Node], said: EventNotes) -> Spec | None:
    parts = [_read(each, said) for each in fields["events"].items()]
    return composed(node, [part for part in parts if part is not None])


EVENTS: Final[Mapping[str, Event]] = {
    "GaussianDpEvent": Event(("noise_multiplier",), _plain("gaussian", noise_multiplier="noise_multiplier")),
    "LaplaceDpEvent": Event(("noise_multiplier",), _plain("laplace", noise_multiplier="noise_multiplier")),
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
        _plain(
            "gaussian_mixture", noise_multiplier="standard_deviation", shifts="sensitivities", weights="sampling_probs"
        ),
    ),
    "EpsilonDeltaDpEvent": Event(("epsilon", "delta"), _stated),
    "ExponentialMechanismDpEvent": Event(("epsilon",), _plain("exponential", epsilon="epsilon")),
    "PermuteAndFlipDpEvent": Event(("epsilon",), _permute_and_flip),
    "RandomizedResponseDpEvent": Event(("noise_parameter", "num_buckets"), _randomized_response),
    "DiscreteLaplaceDpEvent": Event(("noise_parameter", "sensitivity"), _discrete_laplace),
    "NoOpDpEvent": Event((), _nothing),
    "NonPrivateDpEvent": Event((), _lost),
}
"""Every class that is read. Who knows another one adds it here."""
