"""One Gaussian step on a batch of fixed size, before its neighbours are known.

n = records of the (larger) data set, b = batch, k = records that are added, of length at most 1, mu = 1/sigma.

**Without replacement.** A batch of the larger data set holds i of the k records with the hypergeometric chance
h(i; n, k, b). Draw a uniform b-subset S of the n - k others first, then i, and replace i uniform ones of S by a uniform
i-subset of the k: what is left of S with them is a uniform batch that holds i of them. Given S, the replaced ones and
the order, the smaller data set gives N(s), the larger one sum_i h(i) N(s + v_i), |v_i| <= 2 i. To learn what was drawn
helps the attacker (joint convexity), and a mixture over vectors is dominated by that over their lengths, in each of
which it rises (Choquette-Choo et al. 2024, Corollary 4.7): N(0) against sum_i h(i) N(2 i mu), in both orders and in
every composition. Attained in every step where all others have the gradient -u and the k records u.

**With replacement.** Each of b draws is one of the k with chance k/n, else a uniform one of the others: the same with
the binomial law of b draws at rate k/n, attained in the same way.

**All of them**, b = n without replacement: no batch of the smaller data set is as large. Read as what smaller batches
tend to, N(0) against N(2 mu): attained where means over the records that there are is what is released, an upper end
where it is their sum, which the record moves by half as much.
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
TOO_MANY: Final = f"a batch may hold more than {MOST_SHIFTS} of them, and mixtures of more shifts are not served."


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBatches(DescribedStep):
    """The noisy sum over a uniform batch, a share `sample_rate` of all records of the larger data set, drawn with
    `replacement` or without; `batch_size` of `dataset_size` where these are known, which groups and replacement want.

    `noise_multiplier` is the exact noise on the sum over the largest length of what one record adds. A full batch is
    all that the smaller data set has. `batch_mean.py` has the pairs, and what of them is attained.
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
            # Every batch holds all: the sum moves by what the records add, or twice as far.
            return BatchMean(sample_rate=Fraction(1), noise_multiplier=2 * noise / neighbours.distance)
        if relation == ZERO_OUT:
            reason = "no dominating pair is known of a batch that may hold an empty record in place of another."
            others = () if self.replacement or k > 1 else (REPLACE,)
            raise neighbours.refused(BATCHES, reason, (ADD_OR_REMOVE, *others))
        if relation == REPLACE and (k > 1 or self.replacement):
            reason = "no dominating pair is known of several records that are replaced, as a batch may hold some."
            raise neighbours.refused(BATCHES, reason, (ADD_OR_REMOVE,))
        if k == 1 and not self.replacement:
            return BatchMean(sample_rate=self.sample_rate, noise_multiplier=noise, symmetrised=relation == REPLACE)
        return self._group(neighbours)

    def _group(self, neighbours: Neighbours) -> AbstractStep:
        n, b, k = self.dataset_size, self.batch_size, neighbours.records
        if n is None or b is None:
            reason = "how many of them a batch holds depends on batch_size and dataset_size."
            raise neighbours.refused(BATCHES, reason, ("batch_size with dataset_size",))
        if k >= n or (n - k < b and not self.replacement):
            reason = f"without them {max(n - k, 0)} records are left, and a batch takes {b}."
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
