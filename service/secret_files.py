"""Secrets from files: the variable `NAME_FILE` names a file with the value of the variable `NAME`.

Containers mount secrets as files. An environment variable is visible to whoever may inspect the container or read
`/proc`, and every child process inherits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

SUFFIX: Final = "_FILE"
LONGEST_SECRET_BYTES: Final = 2**16


def read_secret_files(environment: Mapping[str, str], names: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the values of variables whose value is in a file, and one sentence for each file that is not accepted.

    `names` are the variables that may be in a file. A file is not accepted if it is unreadable, empty, not UTF-8 or
    longer than 64 KB, or if the variable itself is set as well. Newlines at the end of a file do not belong to the
    value, as in command substitution of a shell. The sentences contain no value.
    """
    values: dict[str, str] = {}
    sentences: list[str] = []
    for name in names:
        path = environment.get(name + SUFFIX)
        if not path:
            continue
        try:
            value = _read_secret(Path(path)) if not environment.get(name) else None
        except ValueError as error:
            sentences.append(f"{name}{SUFFIX} is not accepted: {error}.")
        except OSError as error:
            reason = error.strerror or type(error).__name__
            sentences.append(f"{name}{SUFFIX} is not accepted: the file cannot be read ({reason}).")
        else:
            if value is None:
                sentences.append(f"{name} and {name}{SUFFIX} are both set; set one of them.")
            else:
                values[name] = value
    return values, sentences


def _read_secret(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(LONGEST_SECRET_BYTES + 1)
    if len(content) > LONGEST_SECRET_BYTES:
        raise ValueError(f"the file has more than {LONGEST_SECRET_BYTES} bytes")
    try:
        text = content.decode().rstrip("\n")
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8 text") from None
    if not text:
        raise ValueError("the file is empty")
    return text
