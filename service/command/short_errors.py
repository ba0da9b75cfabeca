"""Parser whose errors are two lines: what is wrong, and which command prints the help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn, final

from typing_extensions import override

SIMILAR: Final = 0.6
"""Least similarity of a misspelt name and the name that is suggested, from 0 to 1."""
LONGEST_SHOWN: Final = 64
USAGE_EXIT_CODE: Final = 2
NUMBER: Final = re.compile(r"-\.?\d")
"""Beginning of a negative number, which is no option."""


@final
class ShortErrorParser(argparse.ArgumentParser):
    """Argument parser that reports an unknown option or command first, and suggests the nearest known one."""

    commands: Collection[str] = ()
    """Names of the commands of this parser. Without any, its options may stand anywhere."""

    @override
    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse arguments as `ArgumentParser` does. Exit with an error at the first unknown option or command."""
        for word in _before_separator(args or ()):
            if self.commands and not word.startswith("-"):
                if word not in self.commands:
                    self.error(f"unknown command {shown(word)}.{suggestion(word, self.commands)}")
                break
            name = word.partition("=")[0]
            if not _is_option(word) or name in self._option_string_actions:
                continue
            if not (name.startswith("--") and any(known.startswith(name) for known in self._option_string_actions)):
                self.error(f"unknown option {shown(name)}.{suggestion(name, self._option_string_actions)}")
        return super().parse_known_args(args, namespace)

    @override
    def error(self, message: str) -> NoReturn:
        """Print an error without the usage, and exit with the code 2."""
        self.exit(
            USAGE_EXIT_CODE, f"{self.prog}: {message.rstrip('.')}.\nHelp: {self.prog} --help\n".replace("?.", "?")
        )


def _before_separator(words: Sequence[str]) -> Sequence[str]:
    return words[: words.index("--")] if "--" in words else words


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and " " not in word and not NUMBER.match(word)


def shown(word: str) -> str:
    """Return the first 64 characters of a word of a command line for an error message.

    A question mark replaces each character that is not printable.
    """
    return "".join(each if each.isprintable() else "?" for each in word[:LONGEST_SHOWN])


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a question that names the word of `known` nearest to the unknown `word`, or "".

    Without a word of similarity 0.6, it names an option that is a part of `word` between dashes. The text is empty
    without such an option, and for words of more than 64 characters.
    """
    if len(word) > LONGEST_SHOWN:
        return ""
    names = sorted(known)
    parts = word.strip("-").lower().split("-")
    near = get_close_matches(word.lower(), names, n=1, cutoff=SIMILAR) or [
        name for name in names if name.startswith("--") and name[2:] in parts
    ]
    return f" Did you mean {near[0]}?" if near else ""
