"""Request files of the command line: complete requests, bare members, and states of other libraries."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from service.command.output import print_error
from service.resources.abstract import Computation

NO_CONTEXT: Final = (
    'the file is the state of a run, without a delta. Add --context \'{"delta": 1e-6, "dataset_size": 60000}\', '
    "or the name of a file with this content."
)
DEFAULT_PLOT_RESOURCE: Final = "curves"
PLOT_RESOURCES: Final = {"context": "assessments", "runs": "comparisons", "vary": "sweeps"}
"""Resources with charts, by a field that only their requests have."""


def load_request(computation: Computation[Any, Any], source: str, files: Mapping[str, str]) -> bytes:
    """Return the JSON request in the file `source`, or in standard input for "-", with the members in `files` added.

    `files` maps names of members to their values: each is the path of a JSON file, or JSON that starts with "{". The
    file `source` may contain only the main member of the request (for example the mechanism), or the state of another
    library. Raise OSError if a file cannot be read, and ArgumentError if the arguments contradict each other.
    """
    body = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    content: Any = decode_json(body) if computation.bare_member or files else None
    if computation.bare_member and content is not None and not _is_request(content, computation):
        if "context" in computation.files and "context" not in files:
            raise argparse.ArgumentError(None, NO_CONTEXT)
        if computation.bare_member == "mechanism":
            body = json.dumps({computation.bare_member: as_mechanism(content)}).encode()
        else:
            body = _add_member(b"{}", computation.bare_member, body if content else json.dumps(content).encode())
    for member, given in files.items():
        if isinstance(content, dict) and member in content and _is_request(content, computation):
            raise argparse.ArgumentError(
                None, f"the request already has a {member}. Omit --{member}, or remove the member from the request."
            )
        body = _add_member(body, member, given.encode() if given.lstrip().startswith("{") else Path(given).read_bytes())
    return body


def infer_plot_resource(source: str) -> str:
    """Return the resource of the request in a file, inferred from its fields.

    The default, also for a file that cannot be read, is `curves`.
    """
    try:
        content: Any = json.loads(Path(source).read_bytes())
    except (OSError, ValueError):
        return DEFAULT_PLOT_RESOURCE
    fields = set(cast("dict[str, Any]", content)) if isinstance(content, dict) else set[str]()
    return next((name for field, name in PLOT_RESOURCES.items() if field in fields), DEFAULT_PLOT_RESOURCE)


def decode_json(body: bytes) -> Any:
    """Decode a JSON file. Return None for invalid JSON.

    Return an empty text for bytes that are not text, such as a pickle.
    """
    try:
        return json.loads(body)
    except UnicodeDecodeError:
        return ""
    except (ValueError, RecursionError):
        return None


def _is_request(content: Any, computation: Computation[Any, Any]) -> bool:
    # the states of other libraries also have `mechanism`, but as a string
    if not isinstance(content, dict):
        return False
    known = cast("dict[str, Any]", content)
    others = computation.request_type.model_fields.keys() - {"mechanism"}
    return bool(known.keys() & others - {"format"}) or isinstance(known.get("mechanism"), dict)


def as_mechanism(state: Any) -> dict[str, Any]:
    """Return a mechanism (an object with `type`) unchanged, and any other value as an imported mechanism.

    The short forms of the Python client become `dpsgd`, and a note on standard error says so.
    """
    if isinstance(state, dict) and "type" in state:
        return cast("dict[str, Any]", state)
    from privacy_bounds.runs import read_short_form

    if (short := read_short_form(cast("Any", state))) is not None:
        mechanism, note = short
        print_error(note)
        return mechanism
    return {"type": "imported", "format": "detect", "content": state}


def _add_member(body: bytes, name: str, value: bytes) -> bytes:
    # the bytes of the object and of the value stay unchanged
    end = body.rstrip()
    inner = end.removesuffix(b"}").rstrip()
    return inner + (b"" if inner.endswith(b"{") else b",") + b'"' + name.encode() + b'":' + value + b"}"
