"""Gaussian PMP request as an .npz archive: parameters are fully validated, points by their header.

PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Self

import numpy as np
from pydantic import PrivateAttr, model_validator

from api_schemas.pmp_gaussian import (
    LARGEST_COORDINATE,
    LARGEST_POINT_COUNT,
    LARGEST_POINT_DIMENSION,
    LARGEST_POINT_NUMBERS,
    DpTarget,
    PmpGaussianParameters,
)
from service.privacy.numerics.arrays import FloatArray
from service.resources.array_archive import TEXT_KIND, ArchiveError, ArrayArchive, pointer_to

LARGEST_ARRAY_BYTES: Final = 2**27
POINTS: Final = "points"
TARGET: Final = "target."
NAMES: Final = (
    "Unknown array. Send the arrays points, target.epsilon and target.delta. Send the other parameters of the "
    "request as arrays without dimensions."
)


class PmpGaussianUpload(PmpGaussianParameters):
    """Parameters of an uploaded PMP request, digest of its archive and shape of its points.

    The digest of the request covers these fields. Equal content in another archive, or as JSON, has another digest. PMP
    is practical membership privacy: the attacker does not know which records were drawn.
    """

    archive_sha256: str
    count: int
    dimension: int
    _body: bytes = PrivateAttr(b"")

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        self.data_size_of(self.count)
        return self

    def carrying(self, body: bytes) -> Self:
        """Store the bytes of the archive in this upload, and return the upload."""
        self._body = body
        return self

    def read_points(self) -> FloatArray:
        """Return the points, shape (N, d): N records of dimension d.

        Raises ArchiveError for infinite or huge entries.
        """
        points = ArrayArchive(self._body, LARGEST_ARRAY_BYTES).read(POINTS).astype(np.float64)
        if not np.all(np.abs(points) <= LARGEST_COORDINATE):
            sentence = f"Must contain finite numbers in [-{LARGEST_COORDINATE:g}, {LARGEST_COORDINATE:g}]."
            raise ArchiveError(pointer_to(POINTS), sentence)
        return points


def read_pmp_gaussian_upload(body: bytes) -> PmpGaussianUpload:
    """Return the request for a PMP parameter in an archive (.npz), with its parameters and points.

    Raises ArchiveError for wrong arrays, or ValidationError for wrong parameters. PMP is practical membership privacy:
    the attacker does not know which records were drawn.
    """
    archive = ArrayArchive(body, LARGEST_ARRAY_BYTES)
    parameters: dict[str, Any] = {}
    target: dict[str, Any] = {}
    for name, header in archive.headers.items():
        if header.shape == () and name.removeprefix(TARGET) in DpTarget.model_fields and name.startswith(TARGET):
            target[name.removeprefix(TARGET)] = archive.read(name).item()
        elif header.shape == () and name in PmpGaussianParameters.model_fields and name != "target":
            parameters[name] = archive.read(name).item()
        elif name != POINTS:
            raise ArchiveError(pointer_to(name), NAMES)
    header = archive.headers.get(POINTS)
    if header is None or header.kind == TEXT_KIND or len(header.shape) != 2:
        raise ArchiveError(pointer_to(POINTS), "Required: an array of numbers with shape N x d.")
    count, dimension = header.shape
    if not 2 <= count <= LARGEST_POINT_COUNT or not 1 <= dimension <= LARGEST_POINT_DIMENSION:
        sentence = f"N must be in [2, {LARGEST_POINT_COUNT}] and d in [1, {LARGEST_POINT_DIMENSION}]."
        raise ArchiveError(pointer_to(POINTS), sentence)
    if count * dimension > LARGEST_POINT_NUMBERS:
        raise ArchiveError(
            pointer_to(POINTS), f"All points together may have at most {LARGEST_POINT_NUMBERS} coordinates."
        )
    if target:
        parameters["target"] = target
    return PmpGaussianUpload(
        **parameters, archive_sha256=hashlib.sha256(body).hexdigest(), count=count, dimension=dimension
    ).carrying(body)
