"""Drift of the answers between two engine versions, over the stored corpus of `tests/frozen/answers.json`.

`python -m benchmarks.drift [BEFORE [NOW]] [--output FILE]` prints a table by resource, or writes it. BEFORE and NOW are
files of answers, revisions of Git, or engine versions of the history. By default NOW is the file of this checkout, and
BEFORE the last committed one of another engine version. The exit status is 1 if two enclosures of one number do not
meet, since the truth lies in both, or if no enclosure was compared, and 2 without answers to compare.

The corpus has digests of all answers, and bounds of the first 200. Nothing is computed.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.report import Reach, Section, Table
from tests.frozen.answers import FILE, Answer, FrozenAnswers, Pair
from tests.frozen.comparing import contradictions, unlike, wider

ROOT: Final = Path(__file__).parents[1]
NAME: Final = FILE.relative_to(ROOT).as_posix()
COLUMNS: Final = (
    "resource",
    "answers",
    "other request",
    "equal bytes",
    "equal numbers",
    "numbers moved",
    "enclosures",
    "largest change",
    "wider",
    "do not meet",
)


class NoCorpus(Exception):
    """Raised with one sentence if there are no stored answers of an earlier engine version."""


@dataclass
class Row:
    """Counts of the answers of one resource that differ between two engine versions.

    `change` is the largest relative change of a bound, `wider` counts enclosures that became wider, and `apart` those
    that do not meet.
    """

    answers: int = 0
    other: int = 0
    bytes: int = 0
    numbers: int = 0
    moved: int = 0
    enclosures: int = 0
    change: float = 0.0
    wider: int = 0
    apart: list[str] = field(default_factory=list[str])

    def add(self, before: Answer, now: Answer) -> None:
        """Count the change from the answer `before` to the answer `now`, unless the requests differ."""
        self.answers += 1
        if before.asked != now.asked:
            self.other += 1
            return
        self.bytes += before.bytes == now.bytes
        self.numbers += before.numbers == now.numbers
        self.moved += before.numbers != now.numbers
        if unlike(before, now):  # refused before or now, or with other enclosures
            return
        pairs = list(zip(before.bounds, now.bounds, strict=True))
        self.enclosures += len(pairs)
        self.change = max([self.change, *(_change(*pair) for pair in pairs)])
        self.wider += sum(1 for _ in wider(before, now))
        self.apart += [f"request {now.number}: {each}" for each in contradictions(before, now)]

    def cells(self, name: str) -> tuple[str | int, ...]:
        """Return the row of the report's table for the resource `name`."""
        change = f"{self.change:.2g}" if self.enclosures else ""
        counts = (self.answers, self.other, self.bytes, self.numbers, self.moved, self.enclosures)
        return (name, *counts, change, self.wider, len(self.apart))


def _change(before: Pair, now: Pair) -> float:
    """Return the largest relative change of a bound, lower or upper, from the enclosure `before` to `now`."""
    found = 0.0
    for old, new in zip(before, now, strict=True):
        size = max(abs(old), abs(new))
        if old != new:
            found = max(found, abs(old - new) / size if math.isfinite(size) else math.inf)
    return found


def compare(before: FrozenAnswers, now: FrozenAnswers) -> dict[str, Row]:
    """Compare the answers of two engine versions, and return a row for each resource, and one for all.

    Requests are paired by their number.
    """
    rows: dict[str, Row] = {}
    earlier = {answer.number: answer for answer in before.answers}
    for answer in now.answers:
        if answer.number in earlier:
            for name in (answer.resource, "all"):
                rows.setdefault(name, Row()).add(earlier[answer.number], answer)
    return dict(sorted(rows.items(), key=lambda row: (row[0] == "all", row[0])))


def section(before: FrozenAnswers, now: FrozenAnswers) -> Section:
    """Return the report on the differences between the answers of two engine versions."""
    rows = compare(before, now)
    apart = [each for name, row in rows.items() if name != "all" for each in row.apart]
    notes = [
        "Bounds are stored of the first 200 requests. `wider` and the largest change are about these. "
        "Answers beside `other request` have another request under the same number, and are not compared."
    ]
    if before.platform != now.platform:
        notes.append("The two corpora were computed on different machines: last digits differ for this reason alone.")
    compared = rows["all"].enclosures if rows else 0
    if not compared:
        notes.append("No enclosure was compared, so that nothing is known about the two versions.")
    versions = f"{before.engine_version} and {now.engine_version}"
    table = Table(f"Engines {versions}", COLUMNS, [row.cells(name) for name, row in rows.items()], [*notes, *apart])
    met = f"{len(apart)} of {compared}"
    reach = Reach(
        f"enclosures of {versions} that do not meet",
        "0, and at least 1 compared",
        met,
        met=compared > 0 and not apart,
        required=True,
    )
    return Section("Drift between engine versions", [reach], [table])


def parse(text: str) -> FrozenAnswers:
    """Parse the text of a file of stored answers."""
    found = json.loads(text)
    answers = tuple(
        Answer(*named, problem=problem, bounds=tuple((low, high) for low, high in bounds))
        for *named, problem, bounds in found["answers"]
    )
    return FrozenAnswers(found["platform"], found["engine_version"], tuple(found["skipped"]), answers)


def read(source: str) -> FrozenAnswers:
    """Read the stored answers in a file, of a revision of Git, or of an engine version of the history.

    Raise NoCorpus.
    """
    path = Path(source)
    if path.is_file():
        return parse(path.read_text("utf-8"))
    text = git("show", f"{source}:{NAME}")
    if text is not None:
        return parse(text)
    for found in committed():
        if found.engine_version == source:
            return found
    raise NoCorpus(f"{source} is neither a file of answers, nor a revision of Git or an engine version that has one.")


def earlier_version(now: str) -> FrozenAnswers:
    """Return the answers of the last committed engine version before `now`. Raise NoCorpus."""
    for found in committed():
        if found.engine_version != now:
            return found
    raise NoCorpus("The history has no answers of an earlier engine version. Name a file, or fetch the whole history.")


def committed() -> Iterator[FrozenAnswers]:
    """Yield the stored answers in the commits of this repository, the newest first."""
    for revision in (git("log", "--format=%H", "--", NAME) or "").split():
        if text := git("show", f"{revision}:{NAME}"):
            yield parse(text)


def git(*arguments: str) -> str | None:
    """Return the output of a command of Git, or None if it fails."""
    try:
        ended = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ended.stdout


def measure() -> Section:
    """Return the report on how answers differ between this checkout and the last committed engine version before it."""
    now = read(str(FILE))
    return section(earlier_version(now.engine_version), now)


def main(arguments: Iterable[str] | None = None) -> int:
    """Print or write the report on moved answers, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", nargs="?", help="file of answers, revision of Git, or engine version")
    parser.add_argument("now", nargs="?", default=str(FILE), help="file of answers, revision of Git, or engine version")
    parser.add_argument("--output", type=Path, help="file for the report, in Markdown")
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    try:
        now = read(chosen.now)
        found = section(earlier_version(now.engine_version) if chosen.before is None else read(chosen.before), now)
    except NoCorpus as error:
        print(error, file=sys.stderr)
        return 2
    text = found.markdown() + "\n"
    if chosen.output is None:
        print(text, end="")
    else:
        chosen.output.write_text(text, "utf-8")
    return int(any(not reach.met for reach in found.reaches))


if __name__ == "__main__":
    sys.exit(main())
