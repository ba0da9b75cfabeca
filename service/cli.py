"""`privacy-bounds serve`, `bounds`, `curves`, conversions and audits: the service, and its computations without HTTP.

What a command needs is imported when it runs, so that `bounds` answers without loading a web framework. On a terminal
answers are tables; into a pipe or a file go the bytes of the service.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from service.command_line import JSON, TABLE, made
from service.computations.abstract import Computation, command_of, success
from service.computations.catalogue import RESOURCES, resource
from service.serving import PROBLEM_EXIT_CODE, serve, serve_one_of_several, serve_several, serve_shared, work

OTHERS = ("serve", "worker", "jobs", "operate")
"""Commands that compute nothing themselves."""
SUBJECTS: Final = dict.fromkeys(("state", "wait", "results", "cancel"), "the id of a job") | {
    "submit": "a JSON file, or -"
}
FIRST_SIGN_SECONDS: Final = 1.0

PLAIN_PICTURE: Final = "curves"
DRAWN_BY: Final = {"context": "assessments", "runs": "comparisons", "vary": "sweeps"}
"""Resources with pictures, by a field that only their requests have."""
NO_CONTEXT: Final = (
    "this is the state of a run, which says nothing of delta. Add "
    """--context '{"delta": 1e-6, "dataset_size": 60000}', or name a file with that."""
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Return its exit code: 0; what the answer says to a script (1: a policy is not met, 3: only an
    attestation is missing); or 2 where a problem was reported on standard error.
    """
    sent = sys.argv[1:] if arguments is None else list(arguments)
    names = {command_of(name): name for name in RESOURCES}
    first = sent[0] if sent else ""
    parser = made(names, [first] if first in names else [] if first in OTHERS else list(names))  # all for help alone
    chosen = parser.parse_args(sent)
    if chosen.command == "serve":
        if chosen.workers > 1:
            return serve_several(chosen.workers, chosen.host, chosen.port)
        if chosen.socket is not None:
            return serve_one_of_several(chosen.socket, chosen.operator_socket)
        return serve_shared(chosen.host, chosen.port) if chosen.share_port else serve(chosen.host, chosen.port)
    if chosen.command == "worker":
        return work(only_check=chosen.check)
    if chosen.command == "jobs":
        from privacy_bounds.command import run_jobs

        if (chosen.subject is None) != (chosen.action == "list"):
            parser.error("list takes no id" if chosen.subject else f"{chosen.action} needs {SUBJECTS[chosen.action]}")
        return run_jobs(chosen.action, chosen.subject, chosen.url, chosen.key)
    if chosen.command == "operate":
        from service.operate import OperateArguments, operate

        if chosen.subject is None and chosen.action in ("show", "cancel"):
            parser.error(f"{chosen.action} needs the id of a job")
        if chosen.subject is not None and chosen.action == "list":
            parser.error("list takes no id")
        return operate(
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
    if chosen.command == "completion":
        return completion(parser, chosen.shell)
    if chosen.command == "plot":
        name = chosen.resource or drawn_by(chosen.request)
        return plot(name, chosen.request, Path(chosen.output), chosen.target)
    computation = resource(names[chosen.command])
    files = {member: path for member in computation.files if (path := getattr(chosen, member)) is not None}
    return answer(computation, chosen.request, files, chosen.form)


def completion(parser: argparse.ArgumentParser, shell: str) -> int:
    """Write what the shell reads to complete commands and options."""
    import shtab

    print(shtab.complete(parser, shell))
    return 0


def answer(computation: Computation[Any, Any], source: str, files: Mapping[str, str], form: str | None = None) -> int:
    """Write the response to standard output, or the problem to standard error. `files`: further members of the
    request by their names, as paths or as JSON; `form`: TABLE or a media type. Without one people get a table,
    programs the bytes of the service.
    """
    written = answered_bytes(computation, source, files)
    if written is None:
        return PROBLEM_EXIT_CODE
    to_people = sys.stdout.isatty()
    sys.stdout.buffer.write(shown(computation, written, form or (TABLE if to_people else JSON)))
    if to_people and form == JSON:
        sys.stdout.buffer.write(b"\n")
    response = computation.response_type.model_validate_json(written) if computation.exit_code is not success else None
    return 0 if response is None else computation.exit_code(response)


def answered_bytes(computation: Computation[Any, Any], source: str, files: Mapping[str, str]) -> bytes | None:
    """The response; None where a problem was written to standard error instead."""
    from api_schemas.problems import Problem
    from service.local import answered

    try:
        body = requested(computation, source, files)
    except OSError as error:
        return complained(f"cannot read {error.filename or source}: {error.strerror}")
    except argparse.ArgumentError as error:
        return complained(str(error))
    with patience():
        written = answered(computation, body, instance=f"privacy-bounds {computation.name}")
    if isinstance(written, Problem):
        from service.rendering.tables import shell

        told = shell.problem_text(written).encode() if sys.stderr.isatty() else written.json_bytes()
        sys.stderr.buffer.write(told + b"\n")
        return None
    return written


def complained(sentence: str) -> None:
    """Say on standard error what is wrong."""
    print(f"privacy-bounds: {sentence}", file=sys.stderr)


def drawn_by(source: str) -> str:
    """The resource whose request a file holds, by a field that no other one has; curves for what cannot be read."""
    try:
        held: Any = json.loads(Path(source).read_bytes())
    except (OSError, ValueError):
        return PLAIN_PICTURE
    fields = set(cast("dict[str, Any]", held)) if isinstance(held, dict) else set[str]()
    return next((name for field, name in DRAWN_BY.items() if field in fields), PLAIN_PICTURE)


def plot(name: str, source: str, output: Path, targets: Sequence[float]) -> int:
    """Draw the answer to a request into a file, whose suffix says how. `targets`: limits of the answers of a sweep."""
    from service.local import formed, pictured
    from service.rendering.registry import PNG, SVG, VEGA_LITE

    drawn_as = {".svg": SVG, ".png": PNG, ".json": VEGA_LITE}
    suffix = output.suffix.lower()
    if suffix not in drawn_as:
        complained(f"{output.name} ends in none of {', '.join(drawn_as)}.")
        return PROBLEM_EXIT_CODE
    computation = resource(name)
    written = answered_bytes(computation, source, {})
    if written is None:
        return PROBLEM_EXIT_CODE
    with patience():
        spec = json.loads(formed(computation, written, VEGA_LITE))
        limits = {each["name"]: each for each in spec.get("params", ())}
        if any(f"target_{place}" not in limits for place in range(len(targets))):
            complained("there are more targets than pictures that take one: those of a sweep do.")
            return PROBLEM_EXIT_CODE
        for place, target in enumerate(targets):
            limits[f"target_{place}"]["value"] = target
        image = pictured(json.dumps(spec), drawn_as[suffix])
    try:
        output.write_bytes(image)
    except OSError as error:
        complained(f"cannot write {output}: {error.strerror}")
        return PROBLEM_EXIT_CODE
    return 0


def requested(computation: Computation[Any, Any], source: str, files: Mapping[str, str]) -> bytes:
    """The request: a file, with what it holds alone in its place, and further members.

    Raises OSError where a file cannot be read, ArgumentError where it is not clear what is meant.
    """
    body = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    held: Any = decoded(body) if computation.bare or files else None
    if computation.bare and held is not None and not is_request(held, computation):
        if "context" in computation.files and "context" not in files:
            raise argparse.ArgumentError(None, NO_CONTEXT)
        if computation.bare == "mechanism":
            body = json.dumps({computation.bare: imported(held)}).encode()
        else:
            body = with_member(b"{}", computation.bare, body if held else json.dumps(held).encode())
    for member, given in files.items():
        if isinstance(held, dict) and member in held and is_request(held, computation):
            raise argparse.ArgumentError(
                None, f"the request has a {member} of its own: leave out --{member}, or take it out there."
            )
        body = with_member(body, member, given.encode() if given.lstrip().startswith("{") else Path(given).read_bytes())
    return body


def decoded(body: bytes) -> Any:
    """What a file holds; None where that is no JSON, of which the problem tells. A pickle, say, is a text that nothing
    reads.
    """
    try:
        return json.loads(body)
    except UnicodeDecodeError:
        return ""
    except (ValueError, RecursionError):
        return None


def is_request(held: Any, computation: Computation[Any, Any]) -> bool:
    """Whether it is a whole request: states of other libraries have a `mechanism` of their own, which is a word."""
    if not isinstance(held, dict):
        return False
    known = cast("dict[str, Any]", held)
    others = computation.request_type.model_fields.keys() - {"mechanism"}
    return bool(known.keys() & others - {"format"}) or isinstance(known.get("mechanism"), dict)


def imported(state: Any) -> dict[str, Any]:
    """A mechanism: as it is, or what another library kept of it."""
    if isinstance(state, dict) and "type" in state:
        return cast("dict[str, Any]", state)
    return {"type": "imported", "format": "detect", "content": state}


def with_member(body: bytes, name: str, value: bytes) -> bytes:
    """A JSON object with one more member, both as they were written."""
    end = body.rstrip()
    inner = end.removesuffix(b"}").rstrip()
    return inner + (b"" if inner.endswith(b"{") else b",") + b'"' + name.encode() + b'":' + value + b"}"


def shown(computation: Computation[Any, Any], written: bytes, form: str) -> bytes:
    """The response in a form: of its own, where it has one, else as every response has it."""
    if form == JSON:
        return written
    from service.local import formed
    from service.rendering.registry import renderings_of
    from service.rendering.tables import shell

    renderings = renderings_of(computation.name)

    if form == TABLE and "text/plain" in renderings:
        form = "text/plain"
    if form in renderings:
        return formed(computation, written, form)
    if form == TABLE and "text/csv" in renderings:
        return shell.align_csv(formed(computation, written, "text/csv").decode()).encode()
    response = json.loads(written)
    return (shell.to_table(response, width()) if form == TABLE else shell.to_csv(response)).encode()


def width() -> int | None:
    """Columns of the terminal; None where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


@contextmanager
def patience() -> Generator[None]:
    """A line on the terminal with the time that has gone by, from the first second on; taken away at the end."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("computing"), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task("computing", total=None)
    later = threading.Timer(FIRST_SIGN_SECONDS, progress.start)
    later.daemon = True
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()
        progress.stop()


if __name__ == "__main__":
    sys.exit(main())
