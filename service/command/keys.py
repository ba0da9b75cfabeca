"""Command `privacy-bounds keys`: create, list, rotate and revoke API keys in the store of the service."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from service.command.arguments import Commands
from service.command.short_errors import ShortErrorParser

if TYPE_CHECKING:
    from service.access.api_keys import ApiKey
    from service.access.key_store import KeyStore

PROBLEM: Final = 2
DEFAULT_KEEP: Final = "1h"
UNIT_SECONDS: Final = {"m": 60, "h": 3_600, "d": 86_400}
LONGEST_SECONDS: Final = 100 * 366 * 86_400
ACTIONS: Final = {
    "create": "print a new key, which is shown only once",
    "list": "list all keys without their secrets",
    "rotate": "print a new key with the name, group and scopes of a key, which then ends soon",
    "revoke": "remove a key at once",
}


def add_keys_command(commands: Commands) -> None:
    """Add the command `keys`, which manages API keys, and its options to the parser."""
    from service.access.caller import SCOPES

    keys = commands.add_parser(
        "keys",
        help="manage the API keys of the service",
        description="Manage API keys in the store of the service. Settings come from PRIVACY_BOUNDS_* variables.",
    )
    if isinstance(keys, ShortErrorParser):
        keys.commands = tuple(ACTIONS)
    actions: Commands = keys.add_subparsers(dest="action", required=True)
    create, listing, rotate, revoke = (actions.add_parser(name, help=help_text) for name, help_text in ACTIONS.items())
    create.add_argument(
        "--scope", action="append", required=True, choices=sorted(SCOPES), help="scope; repeat the option for several"
    )
    create.add_argument("--name", type=name, help="name of the caller in logs (default: the id of the key)")
    create.add_argument("--group", type=name, help="owner of what the caller stores (default: the name)")
    create.add_argument("--expires", type=moment, metavar="TIME", help="date, or time from now such as 90d or 12h")
    listing.add_argument("--json", action="store_true", help="write JSON")
    rotate.add_argument("id", help="id of the key")
    rotate.add_argument("--expires", type=moment, metavar="TIME", help="end of the new key (default: never)")
    rotate.add_argument(
        "--keep",
        type=duration,
        default=DEFAULT_KEEP,
        help="time for which the earlier key stays (default: %(default)s)",
    )
    revoke.add_argument("id", help="id of the key")


def run_keys(chosen: argparse.Namespace) -> int:
    """Run the action on API keys that the parsed command line names.

    Return 0, or 2 after a problem was written to standard error.
    """
    from service.access.errors import KeyStoreError
    from service.server.access import key_store
    from service.server.serve import load_settings

    settings = load_settings()
    if settings is None:
        return PROBLEM
    try:
        return _run(key_store(settings), chosen)
    except KeyStoreError as error:
        return _print_error(f"keys: {error}.")


def _run(store: KeyStore, chosen: argparse.Namespace) -> int:
    match chosen.action:
        case "create":
            return _create(store, chosen.name, chosen.group, frozenset(chosen.scope), chosen.expires)
        case "list":
            keys = sorted((each.key for each in store.read()), key=lambda key: (key.created, key.id))
            sys.stdout.write(_as_json(keys) if chosen.json else _table(keys))
            return 0
        case "rotate":
            return _rotate(store, chosen.id, chosen.expires, chosen.keep)
        case _:
            return 0 if store.remove(chosen.id) else _print_error(f"no key has the id {chosen.id!r}.")


def _create(store: KeyStore, name: str | None, group: str | None, scopes: frozenset[str], expires: float | None) -> int:
    from service.access.api_keys import new_key

    now = time.time()
    if expires is not None and expires <= now:
        return _print_error("--expires must be in the future.")
    key, text = new_key(store.digest_key(), name=name, group=group, scopes=scopes, now=now, expires=expires)
    store.put(key)
    sys.stdout.write(text + "\n")
    return 0


def _rotate(store: KeyStore, identifier: str, expires: float | None, keep_seconds: float) -> int:
    from dataclasses import replace

    found = next((each.key for each in store.read() if each.key.id == identifier), None)
    if found is None:
        return _print_error(f"no key has the id {identifier!r}.")
    code = _create(store, found.name, found.group, found.scopes, expires)
    if code == 0:
        end = time.time() + keep_seconds
        store.put(replace(found, expires=end if found.expires is None else min(found.expires, end)))
    return code


def name(text: str) -> str:
    """Parse the name of a caller or a group (1 to 64 characters, `api_keys.NAME`). Raise ArgumentTypeError."""
    from service.access.api_keys import NAME, NAME_RULE

    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(NAME_RULE)
    return text


def duration(text: str) -> float:
    """Parse a duration such as 90d, 12h or 30m, of at most 100 years, and return its seconds.

    Raise ArgumentTypeError for any other text.
    """
    found = re.fullmatch("([0-9]{1,6})([mhd])", text, re.ASCII)
    seconds = int(found[1]) * UNIT_SECONDS[found[2]] if found else LONGEST_SECONDS + 1
    if seconds > LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"use a duration such as 90d, 12h or 30m, not {text!r}")
    return float(seconds)


def moment(text: str) -> float:
    """Parse a duration or a date such as 2027-12-31, and return the time in seconds since 1970.

    A duration counts from now, and a date without a time zone is in UTC. Raise ArgumentTypeError for any other text.
    """
    if re.fullmatch("[0-9]+[mhd]", text, re.ASCII):
        return time.time() + duration(text)
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"use a duration such as 90d, or a date such as 2027-12-31, not {text!r}"
        ) from None


def _as_json(keys: list[ApiKey]) -> str:
    shown = [{member: value for member, value in key.record().items() if member != "digest"} for key in keys]
    return json.dumps({"keys": shown}) + "\n"


def _table(keys: list[ApiKey]) -> str:
    if not keys:
        return "There are no keys.\n"
    rows = [("id", "name", "group", "scopes", "created", "expires")]
    rows += [(key.id, key.name, key.group, ",".join(sorted(key.scopes)), _date(key.created), _end(key)) for key in keys]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines) + "\n"


def _end(key: ApiKey) -> str:
    if key.expires is None:
        return "never"
    return _date(key.expires) + (" (expired)" if key.expires <= time.time() else "")


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print_error(sentence: str) -> int:
    sys.stderr.write(f"privacy-bounds: {sentence}\n")
    return PROBLEM
