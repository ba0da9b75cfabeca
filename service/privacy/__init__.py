"""Numeric core: certified bounds on what an attacker can learn from a release. It knows no HTTP and no files.

A *mechanism* consists of *steps*, for example the noisy updates of a training run. A *run* is a list of steps with
their counts. The worst case of a step is a *pair* of laws: P0 of the release without the record, and P1 with the
record. The *privacy loss* is L = ln dP1/dP0 in nats. A *trade-off curve* gives the smallest type II error (power = 1 -
error) at each false positive rate. A *privacy profile* gives delta at each epsilon. Bounds are *enclosures*, `lower <=
truth <= upper`.
"""
