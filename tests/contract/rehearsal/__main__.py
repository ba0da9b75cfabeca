"""Follow all recipes in a copy of the sources, with some places left out:

`python -m tests.contract.rehearsal FOLDER`.

Round 0 leaves out nothing and runs every check. Each later round leaves out one place of every recipe, no two in the
same file, and runs the checks of these places. Each round is a process of its own that imports the copy. The output is
a JSON list of [round, addition, file, message of the failed check]; the message is "" for a check that passes.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

from tests.contract.rehearsal.further_recipes import RECIPES
from tests.contract.rehearsal.recipes import Place

ROOT: Final = Path(__file__).parents[3]
ROOMS: Final = ("api_schemas", "service", "privacy_bounds", "tests", "docs")
TEXTS: Final = ("README.md", "CHANGELOG.md", "Makefile", "pyproject.toml")
UNCHANGED: Final = ("numpy", "scipy.optimize", "scipy.special", "scipy.stats", "mpmath", "pydantic", "pytest")
UNCHANGED_TOO: Final = ("fastapi", "starlette.testclient", "prometheus_client", "hypothesis")
"""Libraries that every round needs, loaded before the processes fork."""
Named = tuple[str, Place]


def rounds() -> list[list[Named]]:
    """Return the lists of edits ("places") that are left out, one list for each round.

    A round follows the recipes for additions to the project in a copy of the sources, without the edits of its list.
    The first list is empty. Each other list has at most one edit of a recipe, and no two in one file.
    """
    found: list[list[Named]] = [[]]
    for recipe in RECIPES:
        for place in recipe.places:
            free = (
                left_out
                for left_out in found[1:]
                if all(what != recipe.what and other.file != place.file for what, other in left_out)
            )
            chosen = next(free, None)
            if chosen is None:
                found.append(chosen := [])
            chosen.append((recipe.what, place))
    return found


def write(folder: Path, left_out: Sequence[Place], moment: int) -> None:
    """Write all files of the recipes again, without the places that are left out.

    `moment` becomes the modification time of the files, so that older bytecode is not used for them.
    """
    texts: dict[str, str] = {}
    for recipe in RECIPES:
        lines = list(recipe.given)
        lines += [(each.file, *line) for each in recipe.places if each not in left_out for line in each.lines]
        lines += [(each.file, "", "") for each in left_out]
        for file, anchor, text in lines:
            known = texts.get(file) or ((ROOT / file).read_text("utf-8") if (ROOT / file).exists() else "")
            if known and text and known.count(anchor) != 1:
                raise ValueError(f"{file} has {anchor!r} {known.count(anchor)} times: edit the {recipe.what} recipe")
            texts[file] = known.replace(anchor, text + anchor, 1) if anchor else known or text
    for file, text in texts.items():
        (folder / file).write_text(text, "utf-8")
        os.utime(folder / file, (moment, moment))


def check(place: Place) -> str:
    """Return the message with which the check of a place (edit) fails, or "" if it passes."""
    try:
        resolve_name(place.check)(*place.arguments)
    except BaseException as error:  # noqa: BLE001 - failures of tests are no exceptions
        return f"{type(error).__name__}: {error}"
    return ""


def run(folder: Path, number: int, left_out: Sequence[Named]) -> list[list[Any]]:
    """Run the checks of one round in a process of its own that imports the copy of the sources in `folder`.

    In round `number` the copy lacks the edits `left_out` of the recipes for additions to the project. The checks are
    those of these edits, or all checks if nothing is left out. Return a row [round, addition, file, message] for each
    check. The message is that of the failure, or "".
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        for name in [name for name in sys.modules if name.partition(".")[0] in ROOMS]:
            del sys.modules[name]
        os.chdir(folder)
        sys.path[:] = [str(folder), *(path for path in sys.path if Path(path or ".").resolve() != ROOT)]
        chosen = left_out or [(recipe.what, place) for recipe in RECIPES for place in recipe.places]
        found = [[number, what, place.file, check(place)] for what, place in chosen]
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as sent:
        written = sent.read()
    os.waitpid(child, 0)
    found: list[list[Any]] = json.loads(written)
    return found


def main(folder: Path) -> None:
    """Copy the sources to `folder`, and follow the recipes there in rounds that leave out some edits.

    The output is a JSON list of the rows of `run`.
    """
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("guide" if room == "service" else ""))
    for text in TEXTS:
        shutil.copy2(ROOT / text, folder / text)
    for name in (*UNCHANGED, *UNCHANGED_TOO):
        importlib.import_module(name)
    found: list[list[Any]] = []
    for number, left_out in enumerate(rounds()):
        write(folder, [place for _, place in left_out], 1_000_000_000 + number)
        found += run(folder, number, left_out)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
