"""`privacy-bounds serve`, `bounds`, `curves`, conversions and audits: the service, and its computations without HTTP.

What a command needs is imported when it runs, so that `bounds` answers without loading a web framework.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.computations.abstract import Computation, always, command_of
from service.computations.catalogue import RESOURCES, resource

if TYPE_CHECKING:
    import socket

    from service.settings import Settings

OTHERS = ("serve", "worker", "jobs")
"""Commands that compute nothing themselves."""
REFUSED_EXIT_CODE = 1
PROBLEM_EXIT_CODE = 2
UNABLE_TO_LISTEN_EXIT_CODE = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 where the answer shall stop a script (a policy is violated), or 2 where a
    problem was reported on standard error.
    """
    sent = sys.argv[1:] if arguments is None else list(arguments)
    names = {command_of(name): name for name in RESOURCES}
    first = sent[0] if sent else ""
    described = [first] if first in names else [] if first in OTHERS else list(names)  # all of them for help alone
    parser = argparse.ArgumentParser(prog="privacy-bounds", description="Certified bounds on privacy attacks.")
    commands = parser.add_subparsers(dest="command", required=True)

    serve_parser = commands.add_parser("serve", help="serve HTTP; settings come from PRIVACY_BOUNDS_* variables")
    serve_parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve_parser.add_argument("--port", default=8000, type=int, help="port to listen on (default: %(default)s)")

    serve_parser.add_argument(
        "--workers", default=1, type=int, help="processes that accept requests (default: %(default)s)"
    )
    serve_parser.add_argument(
        "--share-port", action="store_true", help="other instances may listen on the same port (SO_REUSEPORT)"
    )
    serve_parser.add_argument("--socket", type=int, help=argparse.SUPPRESS)  # inherited, of one of several processes

    worker_parser = commands.add_parser("worker", help="compute pieces of the jobs of a cluster; settings as of serve")
    worker_parser.add_argument("--check", action="store_true", help="only tell whether a worker of this machine runs")

    jobs_parser = commands.add_parser("jobs", help="send a request to a service as a job, follow it, fetch its results")
    jobs_parser.add_argument("action", choices=("submit", "state", "wait", "results", "cancel"), help="what to do")
    jobs_parser.add_argument("subject", help="a JSON file with resource and request, or - ; else the id of a job")
    jobs_parser.add_argument("--url", default="http://127.0.0.1:8000", help="the service (default: %(default)s)")
    jobs_parser.add_argument("--key", help="Idempotency-Key of submit: with the same one it is the same job")

    for command in described:
        computed = resource(names[command])
        takes = "JSON" if computed.read_archive is None else "JSON or .npz"
        computing = commands.add_parser(command, help=f"answer a request of POST {computed.path} with the same bytes")
        computing.add_argument("request", help=f"a {takes} file, or - for standard input")
        for member in computed.files:
            computing.add_argument(f"--{member}", help=f"a JSON file with the member {member} of the request")
        if computed.renderings:
            forms = ", ".join(computed.renderings)
            computing.add_argument("--accept", help=f"write it as one of {forms}", choices=computed.renderings)

    chosen = parser.parse_args(sent)
    if chosen.command == "serve":
        if chosen.workers > 1:
            return serve_several(chosen.workers, chosen.host, chosen.port)
        if chosen.socket is not None:
            return serve_one_of_several(chosen.socket)
        return serve_shared(chosen.host, chosen.port) if chosen.share_port else serve(chosen.host, chosen.port)
    if chosen.command == "worker":
        return work(only_check=chosen.check)
    if chosen.command == "jobs":
        from privacy_bounds.command import run_jobs

        return run_jobs(chosen.action, chosen.subject, chosen.url, chosen.key)
    computation = resource(names[chosen.command])
    files = {member: path for member in computation.files if (path := getattr(chosen, member)) is not None}
    return answer(computation, chosen.request, files, getattr(chosen, "accept", None))


def serve(host: str, port: int, listening: socket.socket | None = None) -> int:
    """Serve until a signal comes, on a socket of its own or on one that is there."""
    settings = settings_of_environment()
    if settings is None:
        return PROBLEM_EXIT_CODE
    from service.main import create_server

    if settings.jobs_backend == "embedded" and settings.data_folder is None:
        settings = settings.model_copy(update={"data_folder": state_folder()})
    server = create_server(settings, host, port)
    server.run(None if listening is None else [listening])
    return 0 if server.started else UNABLE_TO_LISTEN_EXIT_CODE


def serve_several(count: int, host: str, port: int) -> int:
    """Serve with several processes until a signal comes."""
    settings = settings_of_environment()
    if settings is None:
        return PROBLEM_EXIT_CODE
    from service.processes import serve_with

    try:
        return serve_with(count, host, port, settings.shutdown_timeout_seconds)
    except OSError as error:
        print(f"privacy-bounds: cannot listen on {host}:{port}: {error.strerror}", file=sys.stderr)
        return UNABLE_TO_LISTEN_EXIT_CODE


def serve_shared(host: str, port: int) -> int:
    """Serve on a port that other instances may have as well; the kernel gives connections to one or the other."""
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048, reuse_port=True)
    except OSError as error:
        print(f"privacy-bounds: cannot listen on {host}:{port}: {error.strerror}", file=sys.stderr)
        return UNABLE_TO_LISTEN_EXIT_CODE
    return serve(host, port, listening)


def serve_one_of_several(descriptor: int) -> int:
    """Serve from a socket that another process has opened, and end with it."""
    import socket

    from service.execution.worker import end_with_parent

    end_with_parent()
    return serve("", 0, socket.socket(fileno=descriptor))


def work(*, only_check: bool) -> int:
    """Compute pieces of jobs until a signal comes; or tell by the exit code whether somebody here does."""
    settings = settings_of_environment()
    if settings is None:
        return PROBLEM_EXIT_CODE
    if settings.redis_url is None or not settings.seal_key:
        needed = "PRIVACY_BOUNDS_REDIS_URL and PRIVACY_BOUNDS_SEAL_KEY, those of the service"
        print(f"privacy-bounds: a worker needs {needed}.", file=sys.stderr)
        return PROBLEM_EXIT_CODE
    if only_check:
        from service.jobs.celery.store import is_worker_here

        return 0 if is_worker_here(settings.redis_url.get_secret_value()) else REFUSED_EXIT_CODE
    from service.main import run_worker

    return run_worker(settings)


def settings_of_environment() -> Settings | None:
    """The settings, with logs as they say; None where they are wrong, which is said on standard error."""
    import logging

    from service.settings import ConfigurationError, read_settings

    try:
        settings = read_settings()
    except ConfigurationError as error:
        for sentence in error.args:
            print(f"privacy-bounds: {sentence}", file=sys.stderr)
        return None
    from service.telemetry.logs import EventHandler, make_logger

    logging.basicConfig(handlers=[EventHandler(make_logger(settings.log_level))], level=logging.WARNING)
    return settings


def state_folder() -> Path | None:
    """Where jobs of this user are kept when no folder is named; None where nothing can be kept there."""
    base = os.environ.get("XDG_STATE_HOME")
    folder = (Path(base) if base else Path("~/.local/state").expanduser()) / "privacy-bounds"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None


def answer(
    computation: Computation[Any, Any], source: str, files: Mapping[str, str], media_type: str | None = None
) -> int:
    """Write the response to standard output, or the problem to standard error. `files`: where further members of the
    request are, by their names; `media_type`: the form of the response, if not JSON.
    """
    from api_schemas.problems import Problem
    from service.local import answered

    try:
        body = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        body = whole(body, computation.bare) if computation.bare else body
        for member, path in files.items():
            body = with_member(body, member, Path(path).read_bytes())
    except OSError as error:
        print(f"privacy-bounds: cannot read {error.filename or source}: {error.strerror}", file=sys.stderr)
        return PROBLEM_EXIT_CODE
    written = answered(computation, body, instance=f"privacy-bounds {computation.name}")
    if isinstance(written, Problem):
        sys.stderr.buffer.write(written.json_bytes() + b"\n")
        return PROBLEM_EXIT_CODE
    response = computation.response_type.model_validate_json(written) if computation.passes is not always else None
    sys.stdout.buffer.write(written if media_type is None else computation.rendered(written, media_type))
    if sys.stdout.isatty():
        sys.stdout.buffer.write(b"\n")
    return 0 if response is None or computation.passes(response) else REFUSED_EXIT_CODE


def whole(body: bytes, member: str) -> bytes:
    """A request in a file that may hold one member of it alone."""
    try:
        held: Any = json.loads(body)
    except UnicodeDecodeError:
        return with_member(b"{}", member, b'""')  # a pickle, say: the problem tells what is read in its place
    except (ValueError, RecursionError):
        return body  # the problem tells where it stops being JSON
    return body if isinstance(held, dict) and member in held else with_member(b"{}", member, body)


def with_member(body: bytes, name: str, value: bytes) -> bytes:
    """A JSON object with one more member, both as they were written; a member of that name is then there twice."""
    end = body.rstrip()
    inner = end.removesuffix(b"}").rstrip()
    return inner + (b"" if inner.endswith(b"{") else b",") + b'"' + name.encode() + b'":' + value + b"}"


if __name__ == "__main__":
    sys.exit(main())
