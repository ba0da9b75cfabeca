"""Gaussian step on a batch of fixed size, before its neighbours are known.

Let n be the count of records of the (larger) data set, b the batch size, k the count of added records with length at
most 1, and mu = 1/sigma.

**Without replacement.** A batch of the larger data set holds i of the k records with the hypergeometric probability
h(i; n, k, b). Draw first a uniform b-subset S of the n - k other records, then i, and replace i uniform records of S by
a uniform i-subset of the k records. The result is a uniform batch that holds i of the k records. Given S, the replaced
records and the order, the smaller data set gives N(s), and the larger one gives sum_i h(i) N(s + v_i) with |v_i| <= 2
i. Learning the draw helps the attacker (joint convexity). A mixture over vectors is dominated by the mixture over their
lengths, and rises in each length (Choquette-Choo et al. 2024, Corollary 4.7). So N(0) against sum_i h(i) N(2 i mu)
dominates in both orders and in every composition. The pair is attained in every step if all other records have the
gradient -u and the k added records have u.

**With replacement.** Each of b draws is one of the k records with probability k/n, otherwise a uniform one of the
others. The argument is the same with the binomial law of b draws at rate k/n, and the pair is attained in the same way.

**All records**, b = n without replacement. No batch of the smaller data set is as large. The limit of smaller batches
is N(0) against N(2 mu). This pair is attained if the release is the mean over the existing records. It is an upper
bound if the release is the sum over them, which the record moves half as far.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, DescribedStep
from service.privacy.mechanisms.batches.batch_mean import BatchMean
from service.privacy.mechanisms.batches.shift_laws import BinomialHits, HypergeometricHits
from service.privacy.mechanisms.batches.shifted_mixture import ShiftedMixtureStep, hits_of_many, hits_step
from service.privacy.mechanisms.neighbours import ADD_OR_REMOVE, REPLACE, ZERO_OUT, Neighbours

BATCHES: Final = "batches of fixed size"
MOST_SHIFTS: Final = 256
TOO_MANY: Final = (
    f"a batch may contain more than {MOST_SHIFTS} of these records, and mixtures of more shifts are not supported."
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBatches(DescribedStep):
    """Noisy sum over a batch, drawn uniformly among all batches with a share `sample_rate` of all records.

    Attributes
    ----------
    sample_rate : Fraction
        Share of the records in a batch, exact.
    noise_multiplier : Fraction
        Noise on the sum over the largest contribution of one record, exact.
    dataset_size, batch_size : int or None
        Counts if known; groups of records and replaced records need both counts.
    replacement : bool
        Whether a batch is drawn with replacement.

    Notes
    -----
    A full batch contains all records of the smaller data set. `batch_mean.py` has the pairs, and states which of them
    are attained.
    """

    type: ClassVar[str] = "noisy_sgd"
    sample_rate: Fraction
    noise_multiplier: Fraction
    dataset_size: int | None = None
    batch_size: int | None = None
    replacement: bool = False

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        noise, relation, k = self.noise_multiplier, neighbours.relation, neighbours.records
        if self.sample_rate == 1 and not self.replacement and (relation == ZERO_OUT or (relation == REPLACE and k > 1)):
            # Every batch holds all records: the sum moves by their contributions, or twice as far.
            return BatchMean(sample_rate=Fraction(1), noise_multiplier=2 * noise / neighbours.distance)
        if relation == ZERO_OUT:
            reason = "no dominating pair is known if a batch may contain an empty record in place of another record."
            others = () if self.replacement or k > 1 else (REPLACE,)
            raise neighbours.refused(BATCHES, reason, (ADD_OR_REMOVE, *others))
        if relation == REPLACE and (k > 1 or self.replacement):
            reason = (
                "no dominating pair is known for several replaced records, because a batch may contain only "
                "some of them."
            )
            raise neighbours.refused(BATCHES, reason, (ADD_OR_REMOVE,))
        if k == 1 and not self.replacement:
            return BatchMean(sample_rate=self.sample_rate, noise_multiplier=noise, symmetrised=relation == REPLACE)
        return self._group(neighbours)

    def _group(self, neighbours: Neighbours) -> AbstractStep:
        n, b, k = self.dataset_size, self.batch_size, neighbours.records
        if n is None or b is None:
            reason = "the number of these records in a batch depends on batch_size and dataset_size."
            raise neighbours.refused(BATCHES, reason, ("batch_size with dataset_size",))
        if k >= n or (n - k < b and not self.replacement):
            reason = f"only {max(n - k, 0)} records remain without them, and a batch needs {b} records."
            raise neighbours.refused(BATCHES, reason, ("fewer records",))
        if self.replacement and b > MOST_SHIFTS:
            counts, weights = hits_of_many(b, Fraction(k, n), MOST_SHIFTS)
            if len(counts) > MOST_SHIFTS:
                raise neighbours.refused(BATCHES, TOO_MANY, ("fewer records", "smaller batches"))
            shifts = tuple(2.0 * count for count in counts)
            law = BinomialHits(b, Fraction(k, n), apart=2.0)
            return ShiftedMixtureStep(noise_multiplier=self.noise_multiplier, shifts=shifts, weights=weights, law=law)
        if not self.replacement and min(b, k) > MOST_SHIFTS:
            raise neighbours.refused(BATCHES, TOO_MANY, ("fewer records",))
        law = BinomialHits(b, Fraction(k, n), apart=2.0) if self.replacement else HypergeometricHits(b, k, n, apart=2.0)
        return hits_step(self.noise_multiplier, law)
