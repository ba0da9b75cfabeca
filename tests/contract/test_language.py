"""Docstrings, pages and the published document keep the mechanical rules of plain English."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.contract.answer_texts import answer_texts, few_answer_texts, fixed_texts
from tests.slow_marker import thorough

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("service", "api_schemas", "privacy_bounds", "tests", "benchmarks")
PAGES: Final = ("CHANGELOG.md", "README.md", "SECURITY.md", "docs/guide", "docs/decisions")

LEAST_WORDS: Final = 4
LONGEST_SENTENCE: Final = 30
SHARE_OF_LONG_SENTENCES: Final = 0.05
OPENINGS: Final = (
    "Of ",
    "What ",
    "Where ",
    "Those ",
    "That ",
    "As ",
    "In which ",
    "The same",
    "See ",
    "And ",
    "Like ",
    "By ",
    "To ",
    "So ",
    "For ",
)
PRIVATE_WORDS: Final = re.compile(
    r"\b(rungs?|usual places?|bent (?:contours?|lines?)|at hand|dear(?:er|est)?|tariffs?"
    r"|as (?:said|told|asked|heard)|none of its)\b",
    re.IGNORECASE,
)
WORDS_OF_SPEECH: Final = re.compile(
    r"\b(said|told|asked|heard|somebody|held against|looked at|surely)\b", re.IGNORECASE
)
"""Words that the published document and all texts of answers avoid."""
EARLIER_WORDS: Final = re.compile(
    r"\b((?:upper|lower|safe) ends?|vouch(?:es|ed)?|next to nothing|whoever|known here|asks?|tells?|knows? here)\b",
    re.IGNORECASE,
)
"""Words of earlier texts of answers, which need an explanation."""
VERBS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        abort accept acquire add advance align announce answer append apply approximate ask assemble assert assign
        attach audit await bisect bound bracket bring build calculate calibrate call cancel cap carry change check
        choose claim clamp clear close collect combine commit compare compile complete compose compress compute
        concatenate configure connect consume continue convert copy count create cut decide declare decode
        decompress define delete deliver derive describe determine disable discard discretise dispatch display
        divide do draw drop emit enable enclose encode end enforce enqueue ensure enter enumerate escape estimate
        evaluate evict exclude execute exit expand explain export extend extract fail fetch fill filter find
        finish fit flush fold follow forget format forward generate give grant group grow guess handle hash hoist
        hold identify ignore import include increase initialise insert inspect install integrate interpolate
        intersect invert iterate join judge keep kill label lay leave limit link list listen load locate lock log
        look lower make map mark match maximise measure merge minimise move multiply name narrow negotiate
        normalise notify observe offer omit open order override parse partition pass pause perform persist place
        plan plot poll post predict prefer prepare preserve prevent print process produce project propagate
        protect prove provide publish pull put query queue quote raise rank read rebuild receive record recover
        redirect reduce refine refuse register reject release reload remember remove rename render renew repeat
        replace report represent request require reserve reset resolve respond restart restore restrict resume
        retry return reuse reverse revoke rewrite rotate round route run sample satisfy save scale scan schedule
        search select send separate serialise serve set settle shift show shrink shut sign simplify simulate skip
        sleep slice solve sort split square stage start step stop store stream strip submit subtract sum summarise
        supervise suppress swap symmetrise tabulate take terminate test tighten tilt track transfer transform
        translate trim truncate try turn unpack update upload use validate verify wait walk warm warn weigh
        whether widen withdraw wrap write yield
        """,
    )
)


class Docstring(NamedTuple):
    """Docstring of a module, class or function, with its place."""

    place: str
    text: str
    is_function: bool

    @property
    def summary(self) -> str:
        """First paragraph in one line."""
        return " ".join(self.text.split("\n\n")[0].split())


def docstrings(folder: Path) -> Iterator[Docstring]:
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(node)
                if text is not None:
                    name = getattr(node, "name", "(module)")
                    place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)} {name}"
                    yield Docstring(place, text, is_called(node))


def is_called(node: ast.AST) -> bool:
    """Return whether the node is a function or method whose docstring has to begin with a verb.

    Properties and tests need no verb.
    """
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name.startswith("test_"):
        return False
    return not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


@functools.cache
def docstrings_of(package: str) -> list[Docstring]:
    """Return the docstrings of a package, read when a test first needs them."""
    return list(docstrings(ROOT / package))


@pytest.mark.parametrize("package", PACKAGES)
def test_function_docstrings_start_with_a_verb(package: str) -> None:
    found = [
        (each.place, each.summary)
        for each in docstrings_of(package)
        if each.is_function and re.split(r"[^A-Za-z]", each.summary.lower(), maxsplit=1)[0] not in VERBS
    ]
    assert found == []


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_have_no_inverted_opening(package: str) -> None:
    assert [(each.place, each.summary) for each in docstrings_of(package) if each.summary.startswith(OPENINGS)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_have_at_least_four_words(package: str) -> None:
    assert [(each.place, each.text) for each in docstrings_of(package) if len(each.summary.split()) < LEAST_WORDS] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_have_no_private_words(package: str) -> None:
    assert [
        (each.place, found[0]) for each in docstrings_of(package) if (found := PRIVATE_WORDS.search(each.text))
    ] == []


def pages(name: str) -> list[Path]:
    path = ROOT / name
    return sorted(path.glob("*.md")) if path.is_dir() else [path]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page. Code blocks, tables and headings are left out; inline code is one word."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"(?m)^(\||#|!\[).*$", "", text)
    text = re.sub(r"(?m)^\s*([-*]|\d+\.)\s", "\n\n", text)
    for paragraph in re.split(r"\n\s*\n", text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", paragraph))
        yield from filter(None, re.split(r"(?<=[.!?])\s+", " ".join(plain.split())))


@pytest.mark.parametrize("name", PAGES)
def test_pages_have_few_long_sentences(name: str) -> None:
    found = [sentence for page in pages(name) for sentence in sentences(page.read_text("utf-8"))]
    assert found
    long = [sentence for sentence in found if len(sentence.split()) > LONGEST_SENTENCE]
    assert len(long) <= SHARE_OF_LONG_SENTENCES * len(found), long


@pytest.mark.parametrize("name", PAGES)
def test_pages_have_no_private_words(name: str) -> None:
    found = [(page.name, word[0]) for page in pages(name) for word in PRIVATE_WORDS.finditer(page.read_text("utf-8"))]
    assert found == []


def descriptions(node: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield place and text of the summaries and descriptions of a document. Values of examples are left out."""
    for name, inner in node.items() if isinstance(node, dict) else enumerate(node):
        if name in ("summary", "description") and isinstance(inner, str):
            yield place, inner
        elif name not in ("examples", "value") and isinstance(inner, (dict, list)):
            yield from descriptions(inner, f"{place}/{name}")


def test_published_document_keeps_language_rules() -> None:
    found = list(descriptions(json.loads((ROOT / "api_schemas/openapi.json").read_text("utf-8")), ""))
    assert len(found) > 1000
    parts = [(place, sentence) for place, text in found for sentence in sentences(text)]
    assert [part for part in parts if len(part[1].split()) > LONGEST_SENTENCE] == []
    assert [part for part in parts if part[1].startswith(OPENINGS)] == []
    assert [part for part in parts if PRIVATE_WORDS.search(part[1]) or WORDS_OF_SPEECH.search(part[1])] == []


def plain_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text.

    Parentheses with sources and formulas, JSON in a sentence, and lists of quoted names are left out.
    """
    text = re.sub(r'"[^"\s]+"(?:, "[^"\s]+")+', "", text)
    for _ in range(3):
        text = re.sub(r"\([^()]*\)|\{[^{}]*\}|\[[^\[\]]*\]", "", text)
    yield from filter(None, re.split(r"(?<=[.!?:])\s+", " ".join(text.split())))


@pytest.mark.parametrize("texts", [few_answer_texts, thorough(answer_texts), fixed_texts])
def test_texts_of_answers_keep_language_rules(texts: Callable[[], Iterator[tuple[str, str]]]) -> None:
    found = {text: place for place, text in texts()}
    assert len(found) > 200
    for pattern in (PRIVATE_WORDS, WORDS_OF_SPEECH, EARLIER_WORDS):
        assert [(place, text) for text, place in found.items() if pattern.search(text)] == []
    parts = [(place, sentence) for text, place in found.items() for sentence in plain_sentences(text)]
    # The meaning of a rule is one sentence with all that the policy states.
    limited = [part for part in parts if not part[0].endswith(": meaning")]
    assert [part for part in limited if len(part[1].split()) > LONGEST_SENTENCE] == []
    assert [part for part in parts if part[1].startswith("Of ")] == []
