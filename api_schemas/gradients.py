"""Gradients of a training step: vectors and matrices of one dimension."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from api_schemas.base import Request, is_none
from api_schemas.limits import limit_error

LARGEST_DIMENSION: Final = 4_096
LARGEST_QUERIES: Final = 10_000
LARGEST_BACKGROUND: Final = 100_000
LARGEST_STEP_COUNT: Final = 64
LARGEST_ENTRY: Final = 1e30
"""Fourth powers of entries, summed, stay far from overflow."""

Entry = Annotated[float, Field(ge=-LARGEST_ENTRY, le=LARGEST_ENTRY)]
Vector = Annotated[tuple[Entry, ...], Field(min_length=1, max_length=LARGEST_DIMENSION)]
Variances = Annotated[
    tuple[Annotated[float, Field(ge=0, le=LARGEST_ENTRY)], ...], Field(min_length=1, max_length=LARGEST_DIMENSION)
]


class GradientStep(Request):
    """One released mean gradient of shape [d], and the knowledge of the attacker at the same parameters.

    The distribution of one gradient is given by background gradients, or by its mean with a covariance or variances.
    """

    mean_gradient: Annotated[Vector, Field(description="Released mean gradient of the batch, shape [d].")]
    query_gradients: Annotated[
        tuple[Vector, ...],
        Field(
            min_length=1,
            max_length=LARGEST_QUERIES,
            description="Gradients of the queries, shape [q, d].",
            examples=[[[0.3, -0.1], [0.0, 0.4]]],
        ),
    ]
    background_gradients: Annotated[
        Annotated[tuple[Vector, ...], Field(min_length=2, max_length=LARGEST_BACKGROUND)] | None,
        Field(
            description="Gradients of other records of the population, shape [b, d] with b >= d + 3. These "
            "records must not be in a batch, a query or another step.",
            examples=[[[0.1, 0.2], [-0.3, 0.1], [0.2, -0.2], [0.0, 0.1], [-0.1, 0.3]]],
            exclude_if=is_none,
        ),
    ] = None
    background_mean: Annotated[
        Vector | None, Field(description="Mean mu of one record's gradient, shape [d].", exclude_if=is_none)
    ] = None
    background_covariance: Annotated[
        Annotated[tuple[Vector, ...], Field(min_length=1, max_length=LARGEST_DIMENSION)] | None,
        Field(
            description="Covariance Sigma of one record's gradient, shape [d, d].",
            examples=[[[1.0, 0.0], [0.0, 1.0]]],
            exclude_if=is_none,
        ),
    ] = None
    background_variances: Annotated[
        Variances | None,
        Field(description="Diagonal of a diagonal covariance, shape [d].", exclude_if=is_none),
    ] = None


BACKGROUND_NEEDED: Final = (
    "Send `background_gradients`, or `background_mean` with one of `background_covariance` and `background_variances`."
)


SPARE_ROWS: Final = 3
"""Rows of background gradients beyond the dimension: with fewer, no susceptibility can be estimated."""
FEW_ROWS: Final = (
    "Must have at least {least} rows, three more than the {d} parameters. Send more background gradients of "
    "records outside the batch, or the gradients of fewer parameters."
)


def check_steps(steps: tuple[GradientStep, ...]) -> int:
    """Return the number of queried records. Raise PydanticCustomError for inconsistent shapes."""
    queries, dimension = len(steps[0].query_gradients), len(steps[0].query_gradients[0])
    for number, step in enumerate(steps):
        shapes = {name: _shape(f"/steps/{number}/{name}", vars(step)[name]) for name in GradientStep.model_fields}
        wrong = misfit(f"/steps/{number}", shapes, queries, dimension)
        if wrong is not None:
            raise limit_error(*wrong)
    return queries


def misfit(
    pointer: str, shapes: dict[str, tuple[int, ...] | None], queries: int, dimension: int
) -> tuple[str, str] | None:
    """Return the pointer and the rule for the first array of a training step that has a wrong shape, or None.

    `shapes` has all fields of `GradientStep`, None for an absent field. `queries` and `dimension` are those of the
    first step, and `pointer` is that of this step.
    """
    expected: dict[str, tuple[int | None, ...]] = {
        "mean_gradient": (dimension,),
        "query_gradients": (queries, dimension),
        "background_gradients": (None, dimension),
        "background_mean": (dimension,),
        "background_covariance": (dimension, dimension),
        "background_variances": (dimension,),
    }
    for name, shape in shapes.items():
        if shape is not None and not _fits(shape, expected[name]):
            wanted = " x ".join("b" if length is None else str(length) for length in expected[name])
            return f"{pointer}/{name}", f"Must have the shape {wanted}, as the rest of the request."
    known = {name for name, shape in shapes.items() if shape is not None and name.startswith("background")}
    if known not in _BACKGROUNDS:
        return pointer, BACKGROUND_NEEDED
    background = shapes["background_gradients"]
    if background is not None and background[0] < dimension + SPARE_ROWS:
        return f"{pointer}/background_gradients", FEW_ROWS.format(least=dimension + SPARE_ROWS, d=dimension)
    return None


_BACKGROUNDS: Final = (
    {"background_gradients"},
    {"background_mean", "background_covariance"},
    {"background_mean", "background_variances"},
)


def _fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(
        want is None or have == want for have, want in zip(shape, expected, strict=True)
    )


def _shape(pointer: str, value: tuple[float, ...] | tuple[tuple[float, ...], ...] | None) -> tuple[int, ...] | None:
    """Return the shape of a vector or matrix: (length), or (rows, length of all rows).

    The result is None for None. Raise PydanticCustomError at `pointer` for rows of different lengths.
    """
    if value is None:
        return None
    lengths = [len(row) for row in value if isinstance(row, tuple)]
    for place, length in enumerate(lengths):
        if length != lengths[0]:
            raise limit_error(f"{pointer}/{place}", f"Must have {lengths[0]} entries, like the first row.")
    return (len(value), *lengths[:1])
