"""GLiR audit sent as an .npz archive: its parameters are fully validated, its arrays only by their headers.

GLiR is the gradient likelihood ratio attack (Leemann et al. 2023).
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import PrivateAttr

from api_schemas.glir_audit import SHRINKAGE_NEEDS_BACKGROUND, GlirAuditRequest, GlirParameters
from api_schemas.gradients import (
    LARGEST_BACKGROUND,
    LARGEST_DIMENSION,
    LARGEST_ENTRY,
    LARGEST_QUERIES,
    LARGEST_STEP_COUNT,
    GradientStep,
    misfit,
)
from service.privacy.numerics.arrays import FloatArray
from service.resources.array_archive import TEXT_KIND, ArchiveError, ArrayArchive, Header, pointer_to

LARGEST_ARRAY_BYTES: Final = 2**27
"""Largest size of all arrays of an archive, decompressed."""
STEP_NAME: Final = re.compile(r"steps\.(0|[1-9]\d{0,2})\.([a-z_]+)")
MEMBERS: Final = "members"
Shapes = dict[str, tuple[int, ...] | None]


class GlirUpload(GlirParameters):
    """Parameters of an uploaded gradient likelihood ratio (GLiR) audit, digest of its archive and shapes of its arrays.

    The digest of the request covers these fields. Equal content in another archive, or as JSON, has another digest.
    """

    archive_sha256: str
    dimension: int
    queries: int
    background_rows: tuple[int, ...]
    """Rows of background gradients of each step; 0 for a law given by moments."""
    has_members: bool
    _body: bytes = PrivateAttr(b"")

    def carrying(self, body: bytes) -> Self:
        """Store the bytes of the archive in this upload, and return the upload."""
        self._body = body
        return self

    def arrays(self) -> UploadedArrays:
        """Return a reader of the uploaded arrays."""
        return UploadedArrays(ArrayArchive(self._body, LARGEST_ARRAY_BYTES))


AnyGlirRequest = GlirAuditRequest | GlirUpload


class UploadedArrays:
    """Reader of arrays with validated headers."""

    def __init__(self, archive: ArrayArchive) -> None:
        self._archive = archive

    def step(self, number: int) -> dict[str, FloatArray]:
        """Return the arrays of the step with this number (from 0) by name, as float64.

        Raises ArchiveError for infinite or too large entries.
        """
        prefix = f"steps.{number}."
        names = [name for name in self._archive.headers if name.startswith(prefix)]
        return {name.removeprefix(prefix): self._numbers(name) for name in names}

    def members(self) -> NDArray[np.bool_]:
        """Return whether each query is a member, shape (queries,)."""
        return self._archive.read(MEMBERS).astype(np.bool_)

    def _numbers(self, name: str) -> FloatArray:
        numbers = self._archive.read(name).astype(np.float64)
        if not np.all(np.abs(numbers) <= LARGEST_ENTRY):
            raise ArchiveError(
                pointer_to(name), f"Must contain finite numbers in [-{LARGEST_ENTRY:g}, {LARGEST_ENTRY:g}]."
            )
        if name.endswith("background_variances") and np.any(numbers < 0):
            raise ArchiveError(pointer_to(name), "Must not be negative.")
        return numbers


def read_glir_upload(body: bytes) -> GlirUpload:
    """Return the request for a GLiR audit in an archive (.npz), with its parameters and arrays.

    Raises ArchiveError for wrong arrays, or ValidationError for wrong parameters.
    """
    archive = ArrayArchive(body, LARGEST_ARRAY_BYTES)
    steps: dict[int, Shapes] = {}
    parameters: dict[str, Any] = {}
    for name, header in archive.headers.items():
        matched = STEP_NAME.fullmatch(name)
        if matched is not None and matched[2] in GradientStep.model_fields:
            _check_numbers(name, header)
            steps.setdefault(int(matched[1]), dict.fromkeys(GradientStep.model_fields))[matched[2]] = header.shape
        elif name in GlirParameters.model_fields and header.shape == ():
            parameters[name] = archive.read(name).item()
        elif name != MEMBERS:
            raise ArchiveError(pointer_to(name), NAMES)
    queries, dimension = _check_steps(steps)
    members = archive.headers.get(MEMBERS)
    if members is not None and (members.shape != (queries,) or members.kind != "b"):
        raise ArchiveError(pointer_to(MEMBERS), f"Must contain one boolean for each of the {queries} queries.")
    backgrounds = [steps[number]["background_gradients"] for number in range(len(steps))]
    upload = GlirUpload(
        **parameters,
        archive_sha256=hashlib.sha256(body).hexdigest(),
        dimension=dimension,
        queries=queries,
        background_rows=tuple(0 if shape is None else shape[0] for shape in backgrounds),
        has_members=members is not None,
    )
    if upload.shrinkage and not all(upload.background_rows):
        raise ArchiveError("/shrinkage", SHRINKAGE_NEEDS_BACKGROUND)
    return upload.carrying(body)


NAMES: Final = (
    "Unknown array. Send the arrays members and steps.<number>.<field> with the fields of a step. Send the "
    "parameters of the request as arrays without dimensions."
)


def _check_numbers(name: str, header: Header) -> None:
    if header.kind == TEXT_KIND:
        raise ArchiveError(pointer_to(name), "Must contain numbers.")
    if 0 in header.shape or len(header.shape) not in (1, 2):
        raise ArchiveError(pointer_to(name), "Must have one or two dimensions, and at least one entry.")


def _check_steps(steps: dict[int, Shapes]) -> tuple[int, int]:
    # (number of queries, dimension)
    if sorted(steps) != list(range(len(steps))) or not 1 <= len(steps) <= LARGEST_STEP_COUNT:
        raise ArchiveError("/steps", f"Must be 1 to {LARGEST_STEP_COUNT} steps, numbered from 0 without gaps.")
    for number, shapes in sorted(steps.items()):
        for name in ("mean_gradient", "query_gradients"):
            if shapes[name] is None:
                raise ArchiveError(f"/steps/{number}/{name}", "Required: an array of numbers.")
    first = steps[0]["query_gradients"] or ()
    if len(first) != 2 or first[0] > LARGEST_QUERIES or first[1] > LARGEST_DIMENSION:
        sentence = f"Must have the shape q x d with q at most {LARGEST_QUERIES} and d at most {LARGEST_DIMENSION}."
        raise ArchiveError("/steps/0/query_gradients", sentence)
    for number, shapes in sorted(steps.items()):
        background = shapes["background_gradients"]
        if background is not None and not 2 <= background[0] <= LARGEST_BACKGROUND:
            pointer = f"/steps/{number}/background_gradients"
            raise ArchiveError(pointer, f"Must have 2 to {LARGEST_BACKGROUND} rows.")
        wrong = misfit(f"/steps/{number}", shapes, first[0], first[1])
        if wrong is not None:
            raise ArchiveError(*wrong)
    return first
