"""The points of a Gaussian PMP request sent as an .npz archive: parameters checked in full, points by their header."""

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
from service.computations.array_archive import TEXT_KIND, ArchiveError, ArrayArchive, pointer_to
from service.privacy.numerics.arrays import FloatArray

LARGEST_ARRAY_BYTES: Final = 2**27
POINTS: Final = "points"
TARGET: Final = "target."
NAMES: Final = (
    "Not an array here. The arrays are points, target.epsilon and target.delta, and the other parameters of the "
    "request as arrays without dimensions."
)


class PmpGaussianUpload(PmpGaussianParameters):
    """The parameters of an uploaded request, the name of its archive and the shape of its points.

    Its digest is that of these fields: equal content in another archive, or as JSON, has another digest.
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
        """The same, with its archive."""
        self._body = body
        return self

    def read_points(self) -> FloatArray:
        """The points, N x d. Raises ArchiveError for what is not finite, or huge."""
        points = ArrayArchive(self._body, LARGEST_ARRAY_BYTES).read(POINTS).astype(np.float64)
        if not np.all(np.abs(points) <= LARGEST_COORDINATE):
            sentence = f"Must hold finite numbers in [-{LARGEST_COORDINATE:g}, {LARGEST_COORDINATE:g}]."
            raise ArchiveError(pointer_to(POINTS), sentence)
        return points


def read_pmp_gaussian_upload(body: bytes) -> PmpGaussianUpload:
    """The request in the bytes of an archive. Raises ArchiveError, or ValidationError for its parameters."""
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
        raise ArchiveError(pointer_to(POINTS), "Required: numbers, of shape N x d.")
    count, dimension = header.shape
    if not 2 <= count <= LARGEST_POINT_COUNT or not 1 <= dimension <= LARGEST_POINT_DIMENSION:
        sentence = f"N must be in [2, {LARGEST_POINT_COUNT}] and d in [1, {LARGEST_POINT_DIMENSION}]."
        raise ArchiveError(pointer_to(POINTS), sentence)
    if count * dimension > LARGEST_POINT_NUMBERS:
        raise ArchiveError(pointer_to(POINTS), f"All points together may have {LARGEST_POINT_NUMBERS} coordinates.")
    if target:
        parameters["target"] = target
    return PmpGaussianUpload(
        **parameters, archive_sha256=hashlib.sha256(body).hexdigest(), count=count, dimension=dimension
    ).carrying(body)
