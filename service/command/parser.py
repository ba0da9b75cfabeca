"""Commands and options of `privacy-bounds`. Module `main` implements the commands."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from typing_extensions import override

from service.command.arguments import Commands, add_forms, address, count, finite, port
from service.command.cite import add_cite_command
from service.command.figure import add_figure_command
from service.command.keys import add_keys_command
from service.command.questions import add_question_commands
from service.command.short_errors import ShortErrorParser
from service.command.signatures import add_signature_commands
from service.resources.catalogue import resource

FIRST_WORDS: Final = re.compile(r"[:.\n]")
"""Punctuation that ends the first phrase of a description."""


def build_parser(names: Mapping[str, str], described: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser of all commands.

    `names` maps commands to the paths of resources. `described` lists the commands of resources whose options are
    added. If `described` is empty, only the commands that compute nothing are added.
    """
    parser = ShortErrorParser(prog="privacy-bounds", description="Compute certified bounds on privacy attacks.")
    parser.add_argument("--version", action=_PrintVersions)
    commands = parser.add_subparsers(dest="command", required=True)
    _add_serving(commands)
    _add_mcp(commands)
    _add_jobs(commands)
    _add_operate(commands)
    add_keys_command(commands)
    _add_doctor(commands)
    _add_backup(commands)
    completing = commands.add_parser("completion", help="print a completion script for a shell")
    completing.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))
    add_cite_command(commands)
    add_figure_command(commands, complete=bool(described))
    add_signature_commands(commands)
    add_question_commands(commands)
    if described:
        _add_plot(commands)
    for command in described:
        _add_computation(commands, command, names[command])
    parser.commands = commands.choices
    return parser


def _add_serving(commands: Commands) -> None:
    serve = commands.add_parser(
        "serve", help="start the HTTP service; PRIVACY_BOUNDS_* environment variables configure it"
    )
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", default=8000, type=port, help="port to listen on (default: %(default)s)")
    serve.add_argument(
        "--workers", default=1, type=count, help="number of processes that accept requests (default: %(default)s)"
    )
    serve.add_argument("--share-port", action="store_true", help="share the port with other instances (SO_REUSEPORT)")
    serve.add_argument("--operator-socket", type=int, help=argparse.SUPPRESS)  # inherited, of one of several processes
    serve.add_argument("--socket", type=int, help=argparse.SUPPRESS)

    worker = commands.add_parser("worker", help="start a worker for the jobs of a cluster, with the settings of serve")
    worker.add_argument("--check", action="store_true", help="check whether a worker runs on this machine, then exit")


def _add_mcp(commands: Commands) -> None:
    mcp = commands.add_parser(
        "mcp",
        help="serve assistants by the Model Context Protocol",
        description="Serve tools and documents by the Model Context Protocol on standard input and output. "
        "Settings come from PRIVACY_BOUNDS_* variables.",
    )
    mcp.add_argument(
        "--http",
        type=address,
        metavar="HOST:PORT",
        help="serve streamable HTTP at /mcp instead, for example on 127.0.0.1:8001",
    )


def _add_jobs(commands: Commands) -> None:
    jobs = commands.add_parser(
        "jobs",
        help="submit a request to a service as a job, follow the job, and get its results",
        description="Work with jobs of a service. An API key or a token comes from PRIVACY_BOUNDS_API_KEY.",
    )
    jobs.add_argument("action", choices=("submit", "list", "state", "wait", "results", "cancel"), help="action on jobs")
    subject = "for submit, a JSON file with resource and request, or -; for list, nothing; otherwise the id of a job"
    jobs.add_argument("subject", nargs="?", help=subject)
    jobs.add_argument("--url", default="http://127.0.0.1:8000", help="address of the service (default: %(default)s)")
    jobs.add_argument(
        "--key", help="Idempotency-Key for submit; submitting again with the same key returns the same job"
    )


def _add_operate(commands: Commands) -> None:
    operate = commands.add_parser(
        "operate", help="manage stored jobs as an operator, also while the service is stopped"
    )
    operate.add_argument("what", choices=("jobs",), help="what to manage")
    actions = (
        "list: list active jobs; show: explain why a job does not progress; cancel: cancel a job; purge: delete "
        "expired jobs"
    )
    operate.add_argument("action", choices=("list", "show", "cancel", "purge"), help=actions)
    operate.add_argument("subject", nargs="?", help="id of a job, for show, cancel and purge")
    operate.add_argument("--json", action="store_true", help="write JSON")
    operate.add_argument("--ended", action="store_true", help="for list and purge: include all ended jobs")
    operate.add_argument("--requester", help="for list: only jobs of this requester")
    operate.add_argument(
        "--limit", default=50, type=count, help="for list --ended: number of jobs (default: %(default)s)"
    )
    operate.add_argument("--cursor", help="for list --ended: start of the page")


def _add_doctor(commands: Commands) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="check a deployment: settings, secrets, Redis, clock, disk, versions",
        description="Check the deployment with the settings of the environment. The exit code is 0 if the deployment "
        "is healthy, and 1 if it is not. Warnings leave it healthy.",
    )
    doctor.add_argument("--url", help="check the running service at this address too")
    doctor.add_argument("--json", action="store_true", help="write JSON")


def _add_backup(commands: Commands) -> None:
    backup = commands.add_parser(
        "backup", help="write jobs and API keys of the data folder into a file, also while the service runs"
    )
    backup.add_argument("file", help="new file, for example backup.zip")
    restoring = commands.add_parser("restore", help="write a backup into the data folder while the service is stopped")
    restoring.add_argument("file", help="file of the command backup")
    restoring.add_argument("--replace", action="store_true", help="put files of the data folder aside first")


def _add_plot(commands: Commands) -> None:
    from service.rendering.chart_catalogue import CHART_SOURCES

    plot = commands.add_parser("plot", help="draw a chart of the answer to a request")
    plot.add_argument("request", help="JSON file, or - for standard input")
    plot.add_argument(
        "--resource",
        choices=CHART_SOURCES,
        help="resource of the request (default: determined by the fields of the request)",
    )
    plot.add_argument("--output", required=True, help="output file: .svg, .png, or .json for Vega-Lite")
    limit = "for sweeps: limit of the first answer; repeat the option for further answers"
    plot.add_argument("--target", type=finite, action="append", default=[], help=limit)


def _add_computation(commands: Commands, command: str, name: str) -> None:
    from service.rendering.registry import renderings_of

    computation = resource(name)
    takes = "JSON" if computation.read_archive is None else "JSON or .npz"
    description = computation.description
    computing = commands.add_parser(
        command,
        help=f"{FIRST_WORDS.split(description)[0]} (POST {computation.path})",
        description=f"{description} Equivalent to POST {computation.path}.",
    )
    computing.add_argument("request", help=f"{takes} file, or - for standard input")
    for member in computation.files:
        help_text = f"member {member} of the request, as a JSON file or as JSON"
        computing.add_argument(f"--{member}", help=help_text, action=_OnlyOnce)
    forms = add_forms(computing)
    known = renderings_of(computation.name)
    if known:
        other = ", ".join(known)
        forms.add_argument("--accept", dest="form", help=f"write one of {other}", choices=known)


@final
class _OnlyOnce(argparse.Action):
    # a second file must not silently replace the first
    @override
    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"use {option_string} only once; put everything into one file.")
        setattr(namespace, self.dest, values)


@final
class _PrintVersions(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the versions of the package and its engine")

    @override
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        from service.engine_version import ENGINE_VERSION

        sys.stdout.write(f"privacy-bounds {version('privacy-bounds')}, engine {ENGINE_VERSION}\n")
        parser.exit()
