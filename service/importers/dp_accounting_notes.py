"""Notes about events of dp_accounting that a mechanism does not express, and reasons why events are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

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
FIXED_BATCHES: Final = (
    "Batches of a fixed size use add_or_remove_one without a threat_model. RdpAccountant accepts them only "
    "under REPLACE_ONE."
)

NO_THEOREM: Final[Mapping[str, str]] = {
    "DiscreteGaussianDpEvent": "the event is not read. Send the mechanism discrete_gaussian with sigma, "
    "sensitivity and dimension.",
    "TruncatedSubsampledGaussianDpEvent": "no theorem here covers truncated Poisson batches. Send "
    "PoissonSampledDpEvent only if no batch was truncated, and otherwise "
    "EpsilonDeltaDpEvent with the proved parameters.",
    "SingleEpochTreeAggregationDpEvent": "tree aggregation is not supported. If every record is in one leaf, send "
    "GaussianDpEvent for a zeroed-out record. Its noise_multiplier is divided "
    "by the root of the depth ceil(log2(largest step count + 1)).",
    "UnsupportedDpEvent": "the event stands for a mechanism without a description. Send the mechanism that was run.",
}
"""Known events that are not imported, with the reason and a remedy."""


@final
@dataclass(slots=True)
class ImportNotes:
    """Notes about dp_accounting events that the mechanism itself does not express.

    `sentences` are facts for the reader of the answer. `needs_replacement` is True if an event is valid only for
    replaced records. `event_count` is the number of events read so far. `relation` is the neighbouring relation of the
    state, or None if the state has none.
    """

    sentences: list[str] = field(default_factory=list[str])
    needs_replacement: bool = False
    event_count: int = 0
    relation: str | None = None

    def add(self, sentence: str) -> None:
        """Append a sentence unless the list already contains it."""
        if sentence not in self.sentences:
            self.sentences.append(sentence)
