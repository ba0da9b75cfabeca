"""Output of the command line: rendered responses, error messages, and a progress indicator."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from service.command.arguments import JSON, TABLE
from service.resources.abstract import Computation

PROGRESS_DELAY_SECONDS: Final = 1.0


def print_error(sentence: str) -> None:
    """Print a sentence to standard error."""
    print(f"privacy-bounds: {sentence}", file=sys.stderr)


def render_output(computation: Computation[Any, Any], body: bytes, form: str) -> bytes:
    """Return a response body of a resource as a table or in a media type, as bytes.

    `form` is TABLE or the media type. A table is the text or the aligned CSV of the resource, if the resource has one
    of these renderings, else a table of all numbers. Without a CSV rendering, CSV has these numbers as well.
    """
    if form == JSON:
        return body
    from service.command.in_process import render
    from service.rendering.registry import renderings_of
    from service.rendering.tables import shell

    renderings = renderings_of(computation.name)
    if form == TABLE and "text/plain" in renderings:
        text, width = render(computation, body, "text/plain"), _terminal_width()
        return text if width is None else shell.refit(text.decode(), width).encode()
    if form in renderings:
        return render(computation, body, form)
    if form == TABLE and computation.name == "sweeps":
        return shell.align_csv(render(computation, body, "text/csv").decode()).encode()
    response = json.loads(body)
    return (shell.to_table(response, _terminal_width()) if form == TABLE else shell.to_csv(response)).encode()


def _terminal_width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


@contextmanager
def progress_indicator() -> Generator[None]:
    """Show the elapsed time on the terminal while the block runs, from the first second on.

    Show nothing if standard error is not a terminal.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("computing"), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task("computing", total=None)
    later = threading.Timer(PROGRESS_DELAY_SECONDS, progress.start)
    later.daemon = True
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()
        progress.stop()
