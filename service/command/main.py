"""Dispatch of the `privacy-bounds` commands.

A command imports its dependencies when it runs, so that `bounds` answers without loading a web framework. On a
terminal, answers are tables; a pipe or a file receives the response bytes of the service.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from service.command.arguments import JSON, TABLE
from service.command.cite import cite
from service.command.figure import write_figure
from service.command.output import print_error, progress_indicator, render_output
from service.command.parser import build_parser
from service.command.questions import QUESTIONS, VALUE, request_of, safe_values
from service.command.request_file import infer_plot_resource, load_request
from service.command.signatures import create_key, print_public_keys, replay, verify
from service.resources.abstract import Computation, command_of, exit_ok
from service.resources.catalogue import RESOURCES, resource
from service.server.serve import (
    PROBLEM_EXIT_CODE,
    run_job_worker,
    serve,
    serve_inherited_socket,
    serve_processes,
    serve_shared_port,
)

EXTRAS: Final = {
    "serve": "server",
    "worker": "cluster",
    "operate": "server",
    "keys": "server",
    "doctor": "server",
    "backup": "server",
    "restore": "server",
    "mcp": "mcp",
    "signing-key": "verify",
    "verify": "verify",
}
"""Extras of the distribution that commands need; all others need `local`."""
INTERRUPTED_EXIT_CODE: Final = 130
OUTPUT_ERRORS: Final = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of a write to standard output: its reader has gone, or its disk is full. They are no answer."""
NOT_DESCRIBED: Final = (
    "serve",
    "worker",
    "mcp",
    "jobs",
    "operate",
    "keys",
    "doctor",
    "backup",
    "restore",
    "cite",
    "figure",
    "signing-key",
    "verify",
    "replay",
    "--version",
)
"""First arguments that need no resource: they compute nothing themselves."""
SUBJECTS: Final = dict.fromkeys(("state", "wait", "results", "cancel"), "the id of a job") | {
    "submit": "a JSON file, or -"
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    `arguments` are those of the command line (None: `sys.argv`). Return 0 on success, 1 if a policy is not met, 3 if
    only an attestation is missing, and 2 after a problem was written to standard error. An interrupted command has the
    code 130, and a service that cannot listen 3.
    """
    sent = sys.argv[1:] if arguments is None else list(arguments)
    _open_missing_streams()
    try:
        code = _run(sent)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT_CODE
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(sent[0] if sent else "", "local")
        if error.name is None or error.name.partition(".")[0] == __name__.partition(".")[0]:
            raise
        remedy = f"pip install '/path/to/privacy-bounds[{extra}]', the folder of the source or a wheel file"
        print_error(f"{error.name} is not installed; install the extra {extra!r}: {remedy}.")
        return PROBLEM_EXIT_CODE
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python writes at its end
        if error.errno != errno.EPIPE:
            print_error(f"cannot write the output: {error.strerror}")
        return PROBLEM_EXIT_CODE
    return code


def _open_missing_streams() -> None:
    # the null device for each standard stream that the caller has closed
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for the whole process


def _run(sent: list[str]) -> int:
    names = {command_of(name): name for name in RESOURCES}
    first = sent[0] if sent else ""
    # Describing a resource loads it: only the help of all commands describes all of them.
    described = [first] if first in names else [] if first in (*NOT_DESCRIBED, *QUESTIONS) else list(names)
    parser = build_parser(names, described)
    chosen = parser.parse_args(sent)
    match chosen.command:
        case "serve":
            return _serve(chosen)
        case "worker":
            return run_job_worker(only_check=chosen.check)
        case "mcp":
            from service.mcp.command import run_mcp

            return run_mcp(chosen.http)
        case "keys" | "doctor" | "backup" | "restore":
            return _maintain(chosen)
        case command if command in CHECKED:
            return CHECKED[command](parser, chosen)
        case "completion":
            return _print_completion(parser, chosen.shell)
        case "cite" | "figure":
            return _quote(chosen)
        case "plot":
            name = chosen.resource or infer_plot_resource(chosen.request)
            return plot(name, chosen.request, Path(chosen.output), chosen.target)
        case command if command in QUESTIONS:
            request = request_of(command, chosen)
            return PROBLEM_EXIT_CODE if request is None else _answer_request(resource("bounds"), request, chosen.form)
        case command:
            computation = resource(names[command])
            files = {member: path for member in computation.files if (path := getattr(chosen, member)) is not None}
            return run_resource(computation, chosen.request, files, chosen.form)


def _serve(chosen: argparse.Namespace) -> int:
    if chosen.workers > 1:
        return serve_processes(chosen.workers, chosen.host, chosen.port)
    if chosen.socket is not None:
        return serve_inherited_socket(chosen.socket, chosen.operator_socket)
    return serve_shared_port(chosen.host, chosen.port) if chosen.share_port else serve(chosen.host, chosen.port)


def _maintain(chosen: argparse.Namespace) -> int:
    if chosen.command == "keys":
        from service.command.keys import run_keys

        return run_keys(chosen)
    if chosen.command == "doctor":
        from service.command.doctor import run_doctor

        return run_doctor(chosen.url, as_json=chosen.json)
    from service.command.backup import run_backup, run_restore

    return run_backup(chosen.file) if chosen.command == "backup" else run_restore(chosen.file, replaces=chosen.replace)


def _quote(chosen: argparse.Namespace) -> int:
    if chosen.command == "cite":
        return cite(chosen.key, every=chosen.all, listed=chosen.list)
    return write_figure(chosen.name, chosen.output, listed=chosen.list)


def _run_jobs(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> int:
    from privacy_bounds.command import run_jobs

    if (chosen.subject is None) != (chosen.action == "list"):
        parser.error("list takes no id" if chosen.subject else f"{chosen.action} needs {SUBJECTS[chosen.action]}")
    return run_jobs(chosen.action, chosen.subject, chosen.url, chosen.key)


def _run_signing_key(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> int:
    if (chosen.file is None) != (chosen.action == "create"):
        parser.error("create takes no file; use --output" if chosen.file else "public needs a file with signing keys")
    return create_key(chosen.output) if chosen.action == "create" else print_public_keys(chosen.file)


def _run_operate(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> int:
    from service.command.operate import OperateArguments, run_operate

    if chosen.subject is None and chosen.action in ("show", "cancel"):
        parser.error(f"{chosen.action} needs the id of a job")
    if chosen.subject is not None and chosen.action == "list":
        parser.error("list takes no id")
    return run_operate(
        OperateArguments(
            action=chosen.action,
            subject=chosen.subject,
            requester=chosen.requester,
            ended=chosen.ended,
            limit=chosen.limit,
            cursor=chosen.cursor,
            as_json=chosen.json,
        )
    )


CHECKED: Final[Mapping[str, Callable[[argparse.ArgumentParser, argparse.Namespace], int]]] = {
    "jobs": _run_jobs,
    "operate": _run_operate,
    "replay": lambda _, chosen: replay(chosen.file, chosen.keys, chosen.quarantine),
    "signing-key": _run_signing_key,
    "verify": lambda _, chosen: verify(chosen.file, chosen.keys, chosen.quarantine),
}
"""Commands by name. Some check which arguments belong together, and report errors by the parser."""


def _print_completion(parser: argparse.ArgumentParser, shell: str) -> int:
    import shtab

    print(shtab.complete(parser, shell))
    return 0


def run_resource(
    computation: Computation[Any, Any], source: str, files: Mapping[str, str], form: str | None = None
) -> int:
    """Answer the request in a file. Write the response to standard output, or the problem to standard error.

    `files` holds further members of the request by name, as paths or as JSON. `form` is TABLE or a media type. Without
    `form`, a terminal receives a table, and a pipe or a file receives the response bytes. Return the exit code: 2 after
    a problem, else that of the resource (`main`).
    """
    request = read_request(computation, source, files)
    return PROBLEM_EXIT_CODE if request is None else _answer_request(computation, request, form)


def _answer_request(computation: Computation[Any, Any], request: bytes, form: str | None = None) -> int:
    body = _compute_response(computation, request)
    if body is None:
        return PROBLEM_EXIT_CODE
    is_terminal = sys.stdout.isatty()
    written = (
        safe_values(body)
        if form == VALUE
        else render_output(computation, body, form or (TABLE if is_terminal else JSON))
    )
    sys.stdout.buffer.write(written)
    if is_terminal and form == JSON:
        sys.stdout.buffer.write(b"\n")
    if computation.exit_code is exit_ok:
        return 0
    from service.command.gate import explain_failure

    response = computation.response_type.model_validate_json(body)
    for sentence in explain_failure(response):
        print_error(sentence)
    return computation.exit_code(response)


def read_request(computation: Computation[Any, Any], source: str, files: Mapping[str, str]) -> bytes | None:
    """Return the JSON request in the file `source` ("-": standard input), or None after an error about a file.

    `files` maps names of members of the request to their values: each is the path of a JSON file, or JSON that starts
    with "{". The members are added to the request, which must not have them. The error is written to standard error.
    """
    try:
        return load_request(computation, source, files)
    except OSError as error:
        return print_error(f"cannot read {error.filename or source}: {error.strerror}")
    except argparse.ArgumentError as error:
        return print_error(str(error))


def _compute_response(computation: Computation[Any, Any], request: bytes) -> bytes | None:
    from api_schemas.problems import Problem
    from service.command.in_process import evaluate

    with progress_indicator():
        body = evaluate(computation, request, instance=f"privacy-bounds {computation.name}")
    if isinstance(body, Problem):
        from service.rendering.tables.shell import problem_text

        text = problem_text(body).encode() if sys.stderr.isatty() else body.json_bytes()
        sys.stderr.buffer.write(text + b"\n")
        return None
    return body


def plot(name: str, source: str, output: Path, targets: Sequence[float]) -> int:
    """Draw the answer to a request to the resource `name` into an .svg, .png or .json file.

    Return the exit code: 0, or 2 after an error was written to standard error. `source` is the file of the request, and
    `output` that of the chart. `targets` are limits on the answers of a sweep, in order, drawn as lines.
    """
    from service.command.in_process import draw, render
    from service.rendering.registry import PNG, SVG, VEGA_LITE

    media_types = {".svg": SVG, ".png": PNG, ".json": VEGA_LITE}
    suffix = output.suffix.lower()
    if suffix not in media_types:
        print_error(f"{output.name} must end in one of {', '.join(media_types)}.")
        return PROBLEM_EXIT_CODE
    computation = resource(name)
    request = read_request(computation, source, {})
    body = None if request is None else _compute_response(computation, request)
    if body is None:
        return PROBLEM_EXIT_CODE
    with progress_indicator():
        spec = json.loads(render(computation, body, VEGA_LITE))
        limits = {each["name"]: each for each in spec.get("params", ())}
        if any(f"target_{place}" not in limits for place in range(len(targets))):
            print_error("use --target at most once for each answer of a sweep; other charts have no targets.")
            return PROBLEM_EXIT_CODE
        for place, target in enumerate(targets):
            limits[f"target_{place}"]["value"] = target
        image = draw(json.dumps(spec), media_types[suffix])
    try:
        output.write_bytes(image)
    except OSError as error:
        print_error(f"cannot write {output}: {error.strerror}")
        return PROBLEM_EXIT_CODE
    return 0
