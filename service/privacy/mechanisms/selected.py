"""Selection: the best of several runs, by a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal, final

from typing_extensions import override

from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism, Steps
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.repeated import Repeated
from service.privacy.mechanisms.trials import AbstractTrials

Released = Literal["best", "all"]

SCORE_IS_COVERED: Final = Premise(
    "score_is_covered",
    "The mechanism describes one whole trial: the run, its configuration and its score. A score that reads private "
    "data adds its own step to the mechanism, for example a noisy accuracy.",
    about="parts",
)
TRIALS_IGNORE_DATA: Final = Premise(
    "trials_ignore_data",
    "The number of trials was drawn from the stated law before the first trial, independently of the data. The number "
    "stays secret if it is random, and the trials that lost are deleted. No trial was stopped early because of its "
    "result.",
    about="draw",
)
ONE_LAW_OF_CONFIGURATIONS: Final = Premise(
    "one_law_of_configurations",
    "Every trial draws its configuration from one law, independently of the other trials. A grid that is tried in "
    "order is not covered by a random number of trials.",
    about="draw",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Selected(AbstractMechanism):
    """Result of several independent trials of `mechanism`: the best one by its score, or all.

    Attributes
    ----------
    mechanism : AbstractMechanism
        One trial, its score included.
    trials : AbstractTrials
        Law of the number of trials.
    released : str
        "best": the output of the trial with the best score, ties by an independent coin. "all": the outputs of all
        trials, for a fixed number of trials.

    Notes
    -----
    The worst case is taken over all mechanisms with the trade-off curve of one trial, and over all scores. Two theorems
    enclose the worst case (`trade_off/selection/`). With a fixed number of trials, configurations may differ.
    """

    type: ClassVar[str] = "selected"
    mechanism: AbstractMechanism
    trials: AbstractTrials
    released: Released = "best"

    def __post_init__(self) -> None:
        if self.released == "all" and self.trials.fixed is None:
            raise OutOfDomain(
                "released",
                "all",
                '"best" for a random number of trials',
                "Send a fixed number of trials to release all.",
            )

    @property
    @override
    def inner(self) -> tuple[AbstractMechanism, ...]:
        return (self.mechanism,)

    @property
    @override
    def premises(self) -> tuple[Premise, ...]:
        if self.equivalent is not None:
            return self.equivalent.premises if self.equivalent is not self.mechanism else ()
        fixed = self.trials.fixed is not None
        return (SCORE_IS_COVERED, TRIALS_IGNORE_DATA, *(() if fixed else (ONE_LAW_OF_CONFIGURATIONS,)))

    @property
    def equivalent(self) -> AbstractMechanism | None:
        """Mechanism with the same curves: the only trial, or the composition of all trials if all are released.

        None if one of several trials is selected.
        """
        count = self.trials.fixed
        if count == 1:
            return self.mechanism
        return self.composed if self.released == "all" else None

    @property
    def composed(self) -> AbstractMechanism | None:
        """The composition of a fixed number of trials; None for a random number."""
        count = self.trials.fixed
        return None if count is None else Repeated(mechanism=self.mechanism, steps=count)

    @override
    def elementary_steps(self) -> Steps:
        """Return the steps of all trials. Raises UnsupportedCombination if only the best trial is released."""
        same = self.equivalent
        if same is None:
            raise UnsupportedCombination(
                "mechanism",
                "selected inside another mechanism, or against this attacker",
                "the best of several trials has no steps with known losses. Make the selection the outermost "
                "mechanism, against the worst case.",
                ("worst_case", "selected of repeated", "selected of composed"),
            )
        return same.elementary_steps()
