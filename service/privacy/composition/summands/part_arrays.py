"""Parts that are evaluated together, as one run or as many runs of equally many consecutive parts."""

from __future__ import annotations

import numpy as np

from service.privacy.composition.summands.abstract import TruncatedSummand
from service.privacy.numerics.arrays import FloatArray, IndexArray


class PartArrays(TruncatedSummand):
    """N_i steps of each part, of one run or of separate runs.

    Where runs are `separate`, `together` consecutive parts are a run. A sum over the parts of a run then has the shape
    (runs,); else it is one number.
    """

    separate: bool = False
    together: int = 1
    unit: FloatArray
    """Steps of each part that a separate run takes several times; shape (parts,), as all arrays below."""
    rate: FloatArray
    """Approximate probability that a step uses the record."""
    log_truncated_null: FloatArray
    log_truncated_alternative: FloatArray
    """ln of the mass of H0 and of H1 beyond the truncation, per step."""

    def take(self, unit: FloatArray, times: FloatArray | None) -> None:
        """Set the numbers of steps.

        Parameters
        ----------
        unit : (parts,)
            Steps of each part in one run.
        times : (runs,) or None
            How many times each separate run takes the steps of its parts. None if all parts are one run.
        """
        self.separate, self.together = times is not None, 1 if times is None else len(unit) // len(times)
        self.unit, self.count = unit, unit if times is None else unit * self.of_parts(times)

    def of_parts(self, each: FloatArray) -> FloatArray:
        """Return the values of separate runs, shape (..., runs), for each of their parts."""
        return np.repeat(each, self.together, axis=-1) if self.together > 1 else each

    def parts_of(self, runs: IndexArray) -> IndexArray:
        """Return the indices of the parts of the given separate runs."""
        return (runs[:, None] * self.together + np.arange(self.together)).ravel()

    def over_run(self, each: FloatArray) -> FloatArray:
        """Return sum N_i x_i over the parts of a run, from (..., parts)."""
        if self.separate:
            return self._runs(each * self.count).sum(axis=-1) if self.together > 1 else each * self.count
        return each[..., 0] * self.count[0] if len(self.count) == 1 else np.asarray(each @ self.count)

    def least_of_run(self, each: FloatArray) -> FloatArray:
        """Return the minimum over the parts of a run, from (..., parts)."""
        return self._runs(each).min(axis=-1) if self.separate else each.min(axis=-1)

    @property
    def log_truncated_once(self) -> tuple[FloatArray, FloatArray]:
        """ln of the mass of H0 and of H1 beyond the truncation, for each separate run that takes its steps once."""
        logs = np.log(self.unit)
        null, alternative = (
            self._runs(logs + each) for each in (self.log_truncated_null, self.log_truncated_alternative)
        )
        return np.logaddexp.reduce(null, axis=-1), np.logaddexp.reduce(alternative, axis=-1)

    def _runs(self, each: FloatArray) -> FloatArray:
        """Return (..., parts) as (..., runs, parts of a run)."""
        return each.reshape(*each.shape[:-1], -1, self.together)
