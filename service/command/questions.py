"""Commands that answer one question about a run given by options, without a file: `privacy-bounds epsilon ...`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from service.command.arguments import Commands, add_forms, finite, whole
from service.command.output import print_error
from service.command.request_file import as_mechanism, decode_json

VALUE: Final = "value"
"""Form of an answer: the safe value alone."""


@dataclass(frozen=True, slots=True)
class DirectQuestion:
    """Command with one question, whose type is `kind`.

    `options` maps options to members of the question, with their help.
    """

    kind: str
    help: str
    options: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    takes_list: bool = False
    """Whether the options may be repeated."""


QUESTIONS: Final[Mapping[str, DirectQuestion]] = {
    "epsilon": DirectQuestion(
        "epsilon", "epsilon of a run at a delta", {"--delta": ("delta", "delta, for example 1e-5")}
    ),
    "delta": DirectQuestion("delta", "delta of a run at an epsilon", {"--epsilon": ("epsilon", "epsilon, at least 0")}),
    "power": DirectQuestion(
        "trade_off",
        "largest power of membership inference at false positive rates",
        {"--false-positive-rate": ("false_positive_rates", "false positive rate; the option may be repeated")},
        takes_list=True,
    ),
    "reconstruction": DirectQuestion(
        "reconstruction",
        "success of reconstruction against a baseline (ReRo)",
        {"--baseline-success": ("baseline_success", "success of a guess without the release (kappa)")},
    ),
    "advantage": DirectQuestion("advantage", "membership advantage of a run: power minus false positive rate"),
    "gdp-mu": DirectQuestion("gdp_mu", "smallest mu of Gaussian differential privacy of a run"),
    "accuracy": DirectQuestion(
        "attack_accuracy",
        "accuracy of membership inference at a prior",
        {"--prior": ("prior", "prior probability that the record is a member")},
    ),
}
"""Questions by the name of the command."""
RUN: Final = {
    "noise": "noise multiplier: standard deviation over the clipping norm",
    "rate": "sampling rate: expected batch size over the size of the data set",
    "steps": "number of steps",
}


def add_question_commands(commands: Commands) -> None:
    """Add the commands of all questions to the parser."""
    for name, question in QUESTIONS.items():
        asking = commands.add_parser(
            name,
            help=question.help,
            description=f"Compute the {question.help}, with a lower and an upper bound. The same as POST /v1/bounds.",
        )
        run = asking.add_argument_group("run", "a DP-SGD run by its three numbers, or a file")
        run.add_argument("--noise", type=finite, help=RUN["noise"])
        run.add_argument("--rate", type=finite, help=RUN["rate"])
        run.add_argument("--steps", type=whole, help=RUN["steps"])
        run.add_argument("--run", metavar="FILE", help="a mechanism or the state of another library in JSON, or -")
        for option, (member, text) in question.options.items():
            action = "append" if question.takes_list else "store"
            asking.add_argument(option, dest=member, type=finite, required=True, action=action, help=text)
        asking.add_argument("--direction", choices=("add", "remove", "both"), help="null hypothesis of the attack")
        relations = ("add_or_remove_one", "replace_one")
        asking.add_argument("--relation", choices=relations, help="neighbouring data sets (default: add_or_remove_one)")
        add_forms(asking).add_argument(
            "--value", dest="form", action="store_const", const=VALUE, help="the safe value alone"
        )


def request_of(command: str, chosen: argparse.Namespace) -> bytes | None:
    """Return the JSON request of a command with one question, or None after an error was printed.

    `chosen` has the parsed options. The error is about options that are missing or contradict each other, or about the
    file of the run. A note on standard error says how the options were read as a run.
    """
    question = QUESTIONS[command]
    mechanism = _mechanism(chosen)
    if mechanism is None:
        return None
    members = {member: getattr(chosen, member) for member, _ in question.options.values()}
    if chosen.direction is not None:
        members["direction"] = chosen.direction
    request: dict[str, Any] = {"mechanism": mechanism, "questions": [{"type": question.kind, **members}]}
    if chosen.relation is not None:
        request["threat_model"] = {"type": "worst_case", "neighboring_relation": chosen.relation}
    return json.dumps(request).encode()


def _mechanism(chosen: argparse.Namespace) -> Any:
    given = {name: getattr(chosen, name) for name in RUN}
    if chosen.run is not None:
        if any(value is not None for value in given.values()):
            return print_error("send either --run or --noise, --rate and --steps.")
        try:
            body = sys.stdin.buffer.read() if chosen.run == "-" else Path(chosen.run).read_bytes()
        except OSError as error:
            return print_error(f"cannot read {chosen.run}: {error.strerror}")
        content = decode_json(body)
        source = "standard input" if chosen.run == "-" else chosen.run
        return print_error(f"{source} is not JSON.") if content in (None, "") else as_mechanism(content)
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if missing:
        return print_error(f"{', '.join(missing)} missing: give --noise, --rate and --steps, or --run FILE.")
    return as_mechanism({"noise_multiplier": given["noise"], "sample_rate": given["rate"], "steps": given["steps"]})


def safe_values(body: bytes) -> bytes:
    """Return the safe values of the only answer in a response body, one per line, with all their digits.

    A trade-off curve has one power for each false positive rate, any other answer one number.
    """
    (answer,) = json.loads(body)["answers"]
    numbers = [point["power"] for point in answer["points"]] if "points" in answer else [answer]
    return "".join(f"{number['value']}\n" for number in numbers).encode()
