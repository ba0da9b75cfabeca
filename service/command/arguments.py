"""Types of arguments, and options that several commands have."""

from __future__ import annotations

import argparse
import math
from typing import Any, Final, Protocol

LARGEST_PORT: Final = 65_535
LARGEST_COUNT: Final = 1_000
TABLE: Final = "table"
JSON: Final = "application/json"
FORMS: Final = (
    ("--json", JSON, "write the JSON response of the service (default for pipes and files)"),
    ("--table", TABLE, "write a table (default for terminals)"),
    ("--csv", "text/csv", "write CSV with one row for each number, with all digits"),
)


class Commands(Protocol):
    """Type of the result of `ArgumentParser.add_subparsers`, which has no public name."""

    def add_parser(self, name: str, /, **options: Any) -> argparse.ArgumentParser:
        """Add a command and return its parser."""
        ...


def add_forms(parser: argparse.ArgumentParser) -> Any:
    """Add the options that choose the output format of an answer, and return the group of these options.

    At most one of the options may be given.
    """
    forms = parser.add_mutually_exclusive_group()
    for option, form, help_text in FORMS:
        forms.add_argument(option, dest="form", action="store_const", const=form, help=help_text)
    return forms


def port(text: str) -> int:
    """Parse a port number from 0 to 65535. Port 0 selects a free port. Raise ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and int(text) <= LARGEST_PORT):
        raise argparse.ArgumentTypeError(f"use a port number from 0 to {LARGEST_PORT}, not {text!r}")
    return int(text)


def address(text: str) -> tuple[str, int]:
    """Parse the host and port in `HOST:PORT`. Brackets around an IPv6 address are removed. Raise ArgumentTypeError."""
    host, _, number = text.rpartition(":")
    if not host or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        raise argparse.ArgumentTypeError(f"use HOST:PORT, for example 127.0.0.1:8001, not {text!r}")
    return host.strip("[]"), port(number)


def count(text: str) -> int:
    """Parse a number of processes or jobs from 1 to 1000. Raise ArgumentTypeError for any other text."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= LARGEST_COUNT):
        raise argparse.ArgumentTypeError(f"use a number from 1 to {LARGEST_COUNT}, not {text!r}")
    return int(text)


def finite(text: str) -> float:
    """Parse a finite number. Raise ArgumentTypeError for any other text."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"use a finite number, not {text!r}")
    return number


def whole(text: str) -> int:
    """Parse an integer, also from a form such as 1e4. Raise ArgumentTypeError for any other text."""
    number = finite(text)
    if not number.is_integer():
        raise argparse.ArgumentTypeError(f"use a whole number, not {text!r}")
    return int(number)
