"""Recipes of CONTRIBUTING.md, followed in a copy of the sources: each omitted edit makes a check fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.rehearsal.further_recipes import RECIPES
from tests.contract.rehearsal.recipes import Recipe

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_omitted_place_fails_check_that_names_the_file(tmp_path: Path) -> None:
    """Check that following a recipe completely passes its checks, and an omitted edit fails the check of its file."""
    command = [sys.executable, "-m", "tests.contract.rehearsal", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    places = sorted((recipe.what, place.file) for recipe in RECIPES for place in recipe.places)
    complete = [(what, file, message) for number, what, file, message in found if number == 0]
    partial = [(what, file, message) for number, what, file, message in found if number > 0]
    assert sorted(row[:2] for row in complete) == sorted(row[:2] for row in partial) == places
    assert [row for row in complete if row[2]] == [], "a recipe is followed, and a check is red"
    assert [row for row in partial if row[1] not in row[2]] == [], "a place is left out, and no check names its file"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.what)
def test_recipes_match_the_guide(recipe: Recipe) -> None:
    """Check that the paragraph of the guide about an addition names every file that its recipe changes."""
    [start] = [place for place in GUIDE.split("\nA") if f"**{recipe.what}**" in place.partition("\n")[0]]
    files = {place.file for place in recipe.places} | {file for file, _, _ in recipe.given}
    rooms = {file for file in files if f"`{file}`" not in start and f"`{Path(file).parent}/`" not in start}
    assert rooms == set(), "edit CONTRIBUTING.md"
