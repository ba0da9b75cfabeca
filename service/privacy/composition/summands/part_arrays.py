"""Parts that are evaluated together, as one run or as many runs of equally many consecutive parts.

A part is a number of equal steps. Arrays have one row for each part.
"""

from __future__ import annotations

import numpy as np

from service.privacy.composition.summands.abstract import TruncatedSummand
from service.privacy.numerics.arrays import FloatArray, IndexArray


class PartArrays(TruncatedSummand):
    """Truncated laws of several parts, each of them N_i equal steps, which form one run or many separate runs.

    `count` holds the N_i. With `separate`, each `together` consecutive parts are a run. A sum over the parts of a run
    then has the shape (runs,); otherwise all parts are one run, and the sum is one number. `unit` has the steps of each
    part in one run, and `rate` the probability that a step uses the record. `log_truncated_null` and
    `log_truncated_alternative` are ln of the mass of H0 and of H1 that one step omits. This base class adds sums over
    runs. A subclass calls `take` and sets the other attributes.
    """

    separate: bool = False
    together: int = 1
    unit: FloatArray
    """Steps of each part that a separate run takes several times; shape (parts,), as all arrays below."""
    rate: FloatArray
    log_truncated_null: FloatArray
    log_truncated_alternative: FloatArray

    def take(self, unit: FloatArray, times: FloatArray | None) -> None:
        """Set the numbers of steps of all parts.

        Parameters
        ----------
        unit : (parts,)
            Steps of each part in one run.
        times : (runs,) or None
            How many times each separate run repeats its steps. None if all parts are one run.
        """
        self.separate, self.together = times is not None, 1 if times is None else len(unit) // len(times)
        self.unit, self.count = unit, unit if times is None else unit * self.of_parts(times)

    def of_parts(self, each: FloatArray) -> FloatArray:
        """Return values of separate runs, shape (..., runs), repeated for each of their parts, shape (..., parts)."""
        return np.repeat(each, self.together, axis=-1) if self.together > 1 else each

    def parts_of(self, runs: IndexArray) -> IndexArray:
        """Return the indices of the parts of the separate runs with the indices `runs`, run by run, as one list."""
        return (runs[:, None] * self.together + np.arange(self.together)).ravel()

    def over_run(self, each: FloatArray) -> FloatArray:
        """Return sum N_i x_i over the parts of each run, from x of shape (..., parts); N_i is the number of steps.

        The result has the shape (..., runs) for separate runs, and (...) for one run.
        """
        if self.separate:
            return self._runs(each * self.count).sum(axis=-1) if self.together > 1 else each * self.count
        return each[..., 0] * self.count[0] if len(self.count) == 1 else np.asarray(each @ self.count)

    def least_of_run(self, each: FloatArray) -> FloatArray:
        """Return the minimum over the parts of each run, from `each` of shape (..., parts) to (..., runs).

        The result has the shape (...) if all parts are one run.
        """
        return self._runs(each).min(axis=-1) if self.separate else each.min(axis=-1)

    @property
    def log_truncated_once(self) -> tuple[FloatArray, FloatArray]:
        """Upper bounds of ln of the truncated mass under H0 and under H1, for runs that take their steps once.

        All arrays have the shape (runs,).
        """
        logs = np.log(self.unit)
        null, alternative = (
            self._runs(logs + each) for each in (self.log_truncated_null, self.log_truncated_alternative)
        )
        return np.logaddexp.reduce(null, axis=-1), np.logaddexp.reduce(alternative, axis=-1)

    def _runs(self, each: FloatArray) -> FloatArray:
        return each.reshape(*each.shape[:-1], -1, self.together)
