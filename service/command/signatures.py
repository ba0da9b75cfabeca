"""Commands `signing-key`, `verify` and `replay`: keys, verification and repetition of signed statements."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from service.command.arguments import Commands
from service.command.output import print_error

if TYPE_CHECKING:
    from service.signing.keys import VerificationKey
    from service.signing.statement import Statement

NOT_VERIFIED: Final = 1
"""Exit code of a file whose signature is wrong, or whose answer contradicts the one that is computed again."""
UNREADABLE: Final = 2
"""Exit code of a file that is no signed statement, and of keys that cannot be read."""
LARGEST_FILE: Final = 2**26
DISPUTED: Final = "{} has a number of a run that two independent engines dispute. Do not use it."
QUARANTINE_HELP: Final = "file quarantined_results of the service; a statement with a disputed number ends with 1"
KEYS_HELP: Final = "file with public keys, as the service has them at /.well-known/privacy-bounds-keys"


def add_signature_commands(commands: Commands) -> None:
    """Add the commands for signing keys and signed statements to the parser."""
    key = commands.add_parser(
        "signing-key",
        help="create a key that signs answers, or print its public key",
        description="create: print a new Ed25519 key in PEM, or write it to a file with mode 0600. public: print the "
        "public keys of a file as a JSON Web Key Set.",
    )
    key.add_argument("action", choices=("create", "public"), help="what to do")
    key.add_argument("file", nargs="?", help="for public: PEM file with signing keys")
    key.add_argument("--output", help="for create: new file for the key")
    verify = commands.add_parser(
        "verify",
        help="verify the signature of an answer, a decision or an HTML report",
        description="Verify a signed statement or report without a network. Exit with 0 if it is verified, 1 if not, "
        "and 2 if a file is unreadable.",
    )
    verify.add_argument("file", help="envelope or HTML report, or - for standard input")
    verify.add_argument("--keys", required=True, help=KEYS_HELP)
    verify.add_argument("--quarantine", help=QUARANTINE_HELP)
    replay = commands.add_parser(
        "replay",
        help="compute the answer of a signed statement again, and compare",
        description="Compute the answer of a signed statement or report again. Exit with 0 if the answers are equal or "
        "all enclosures meet, 1 if an enclosure or verdict contradicts, and 2 if that cannot be computed.",
    )
    replay.add_argument("file", help="envelope or HTML report, or - for standard input")
    replay.add_argument("--keys", help=f"{KEYS_HELP}; verifies the signature first")
    replay.add_argument("--quarantine", help=QUARANTINE_HELP)


def create_key(output: str | None) -> int:
    """Print a new private key for signatures, or write it to the new file `output`, and return the exit code.

    The code is 2 if the file exists or cannot be written, else 0.
    """
    from service.signing.keys import create_private_key

    key = create_private_key()
    if output is None:
        sys.stdout.buffer.write(key)
        return 0
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
    except OSError as error:
        return _report(f"cannot write {output}: {error.strerror}", UNREADABLE)
    return 0


def print_public_keys(file: str) -> int:
    """Print the public keys of a PEM file as a JSON Web Key Set, and return the exit code.

    The code is 2, after an error message, for a file without usable keys, else 0.
    """
    import json

    from service.signing.errors import UnusableKeys
    from service.signing.keys import read_signing_keys

    try:
        found = read_signing_keys(Path(file)).key_set
    except UnusableKeys as error:
        return _report(f"{file}: {error.sentence}.", UNREADABLE)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0


def verify(file: str, keys: str, quarantine: str | None = None) -> int:
    """Verify the signed statement or report in `file`, and say in one sentence what was verified.

    Return the exit code: 0, 1 if the signature is wrong or a number disputed, and 2 if a file is unreadable. `keys` is
    a file of public keys, and `quarantine` a file of quarantined results.
    """
    found = _read_statement(file, keys, quarantine)
    if isinstance(found, int):
        return found
    sys.stdout.write(f"verified: {describe(found)}, key {found.key_id}.\n")
    return 0


def describe(statement: Statement) -> str:
    """Return what a statement is about: kind, resource, engine version, and the digests of its subjects."""
    digests = f"request sha256:{statement.request_sha256}, answer sha256:{statement.answer_sha256}"
    report = "" if statement.report_sha256 is None else f", report sha256:{statement.report_sha256}"
    return f"{statement.kind} of {statement.resource}, engine {statement.engine_version}, {digests}{report}"


def replay(file: str, keys: str | None, quarantine: str | None = None) -> int:
    """Compute the answer of a signed statement again, say in one sentence what differs, and return the exit code.

    The code is 1 if an enclosure, a verdict or the signature contradicts, or if the same engine version gives other
    bytes of an equal answer. It is 2 if a file is unreadable or the answer cannot be computed, else 0. With `keys`, a
    file of public keys, the signature is verified first. A statement with a disputed number in `quarantine`, a file of
    quarantined results, is not computed again, and the code is 1.
    """
    found = _read_statement(file, keys, quarantine)
    if isinstance(found, int):
        return found
    from service.command.replaying import CannotReplay, compute_again
    from service.engine_version import ENGINE_VERSION
    from service.signing.comparison import compare_answers

    try:
        body, answer = compute_again(found)
    except CannotReplay as error:
        return _report(f"{file}: {error}", UNREADABLE)
    compared = compare_answers(found.answer, answer)
    is_same = found.engine_version == ENGINE_VERSION
    if is_same and compared.is_equal and body != found.answer_sha256:
        return _report(f"{file}: the members are equal, but the bytes of the answer differ.", NOT_VERIFIED)
    checked = "" if keys is None else ", whose signature is verified"
    sys.stdout.write(f"{compared.sentence()}; replayed by engine {ENGINE_VERSION}: {describe(found)}{checked}.\n")
    return NOT_VERIFIED if compared.contradicts else 0


def _read_statement(file: str, keys: str | None, quarantine: str | None) -> Statement | int:
    from service.signing.errors import NotVerified, SigningError, UnusableKeys
    from service.signing.verification import read_file, verify_file

    text = _read_file_or_input(file)
    if text is None:
        return UNREADABLE
    try:
        public = None if keys is None else _read_keys(keys)
        found = read_file(text) if public is None else verify_file(text, public)
    except NotVerified as error:
        return _report(f"{file} is not verified: {error.sentence}.", NOT_VERIFIED)
    except OSError as error:
        return _report(f"cannot read {keys}: {error.strerror}", UNREADABLE)
    except UnusableKeys as error:
        return _report(f"{keys}: {error.sentence}.", UNREADABLE)
    except SigningError as error:
        return _report(f"{file} is not verified: {error.sentence}.", UNREADABLE)
    return found if quarantine is None else _refuse_disputed(found, file, quarantine)


def _refuse_disputed(statement: Statement, file: str, quarantine: str) -> Statement | int:
    from service.execution.quarantine import ResultQuarantine
    from service.resources.disputed import rests_on

    disputed = ResultQuarantine(Path(quarantine))
    if not Path(quarantine).exists() or (len(disputed) == 0 and disputed.failure):
        return _report(f"cannot read {quarantine}.", UNREADABLE)
    request, answer = statement.request, statement.answer
    answered: dict[str, Any] = {"engine_version": statement.engine_version, "request": request, "answer": answer}
    if statement.kind == "job" and "vary" in request:
        points = [each for each in answer["points"] if "numbers" in each and each["problem"] is None]
        columns = {pointer: [each["numbers"][pointer] for each in points] for pointer in request["vary"]}
        given = {name: request[name] for name in ("mechanism", "threat_model")}
        answered |= given | {"columns": columns, "points": len(points), "problems": [], "worst_case": None}
    elif "columns" in answer:
        answered = answer
    if f"sha256:{statement.request_sha256}" in disputed or rests_on(answered, disputed.runs):
        return _report(DISPUTED.format(file), NOT_VERIFIED)
    return statement


def _read_file_or_input(file: str) -> bytes | None:
    # one byte more than allowed, so that a longer file is recognised
    try:
        if file == "-":
            return sys.stdin.buffer.read(LARGEST_FILE + 1)
        with Path(file).open("rb") as opened:
            return opened.read(LARGEST_FILE + 1)
    except OSError as error:
        _report(f"cannot read {file}: {error.strerror}", UNREADABLE)
        return None


def _read_keys(file: str) -> dict[str, VerificationKey]:
    from service.signing.keys import LARGEST_KEY_SET, parse_key_set

    with Path(file).open("rb") as opened:
        return parse_key_set(opened.read(LARGEST_KEY_SET + 1))


def _report(sentence: str, code: int) -> int:
    with suppress(UnicodeEncodeError):
        print_error(sentence)
    return code
