"""Contract of the service: pydantic models of requests, responses and problems, with examples and openapi.json.

A request names a *mechanism* (what a training run or a release did with the data), a *threat model* (the attacker) and
*questions*. An *answer* has an *enclosure*: `lower <= truth <= upper`, with the safe bound as `value`. Its *evidence*
says why the bounds hold. The *worst case* is the strongest attacker; weaker ones are *relaxed*. A *trade-off curve*
gives the smallest type II error (or the largest power) of an attack at each false positive rate.
"""
