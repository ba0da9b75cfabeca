"""Command `privacy-bounds figure`: figures and tables of the five papers as SVG, PDF or CSV."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from api_schemas.problems import Problem
from service.command.arguments import Commands
from service.command.output import print_error, progress_indicator
from service.command.short_errors import shown, suggestion
from service.rendering.paper_figures.figure import FigurePoint, PaperFigure
from service.resources.catalogue import resource

REFUSED: Final = 2
"""Exit code of a request that is refused."""
SUFFIXES: Final = (".svg", ".pdf", ".csv", ".json")
AGREEMENT: Final = {"yes": "agrees", "partly": "agrees in part", "no": "does not agree"}


def add_figure_command(commands: Commands, *, complete: bool) -> None:
    """Add the command `figure`, which draws a figure of a paper again.

    `complete` is whether the parser lists the names of figures as choices, for completion in shells.
    """
    drawing = commands.add_parser(
        "figure",
        help="write a figure or a table of one of the five papers",
        description="Compute a figure or a table of one of the papers of the guide, and write it to a file.",
    )
    names = _names() if complete else None
    help_text = "name of the figure, for example glrt-figure-3"
    drawing.add_argument("name", nargs="?", metavar="NAME", choices=names, help=help_text)
    drawing.add_argument("--output", metavar="FILE", help="output file: .svg, .pdf, .csv, or .json for Vega-Lite")
    drawing.add_argument("--list", action="store_true", help="list all figures and tables, with what agrees")


def _names() -> tuple[str, ...]:
    from service.rendering.paper_figures import FIGURES

    return tuple(FIGURES)


def write_figure(name: str | None, output: str | None, *, listed: bool) -> int:
    """Write the figure `name` to the file `output`, and return the exit code of the command.

    The ending of `output` selects SVG, PDF, CSV or Vega-Lite (.json). The code is 2, after an error message, for an
    unknown name or ending, a refused request or a failed write, else 0. With `listed`, the list of all figures is
    written to standard output instead.
    """
    from service.rendering.paper_figures import FIGURES

    if listed:
        sys.stdout.write(listing())
        return 0
    if name is None or output is None:
        print_error("give the name of a figure and --output FILE, or list the figures with --list.")
        return REFUSED
    if name not in FIGURES:
        print_error(
            f"{shown(name)}: unknown figure.{suggestion(name, FIGURES)} "
            "List the figures with: privacy-bounds figure --list"
        )
        return REFUSED
    path = Path(output)
    if path.suffix.lower() not in SUFFIXES:
        print_error(f"{path.name} must end in one of {', '.join(SUFFIXES)}.")
        return REFUSED
    figure = FIGURES[name]
    with progress_indicator():
        points = compute_points(figure)
        if isinstance(points, Problem):
            print_error(f"{points.title}: {points.detail}")
            return REFUSED
        content = _render(figure, points, path.suffix.lower())
    try:
        path.write_bytes(content)
    except OSError as error:
        print_error(f"cannot write {output}: {error.strerror}")
        return REFUSED
    print_error(f"{figure.label}: {AGREEMENT[figure.agrees]}. {figure.finding}")
    return 0


def listing() -> str:
    """Return a line for each figure and table of the papers, with its name or the reason why it is missing."""
    from service.rendering.paper_figures import FIGURES, UNAVAILABLE

    lines = [f"{name}: {figure.label}. {figure.title}. {AGREEMENT[figure.agrees]}" for name, figure in FIGURES.items()]
    lines += [f"(not available) {each.paper}, {each.label}: {each.reason}" for each in UNAVAILABLE]
    return "\n".join(lines) + "\n"


def compute_points(figure: PaperFigure) -> list[FigurePoint] | Problem:
    """Compute all points of a figure in this process, or return the problem of a refused request."""
    from service.command.in_process import evaluate

    points: list[FigurePoint] = []
    for part in figure.parts:
        body = json.dumps(part.request).encode()
        answer = evaluate(resource(part.resource), body, instance=f"privacy-bounds figure {figure.name}")
        if isinstance(answer, Problem):
            return answer
        points += part.read(json.loads(answer))
    return points


def _render(figure: PaperFigure, points: list[FigurePoint], suffix: str) -> bytes:
    from service.command.in_process import draw
    from service.rendering.chart_images import render_pdf
    from service.rendering.paper_figures import CITATIONS
    from service.rendering.paper_figures.chart import figure_csv, figure_spec
    from service.rendering.registry import SVG

    if suffix == ".csv":
        return figure_csv(figure, points)
    spec = json.dumps(figure_spec(figure, points, CITATIONS[figure.paper]))
    if suffix == ".json":
        return spec.encode()
    return render_pdf(spec) if suffix == ".pdf" else draw(spec, SVG)
