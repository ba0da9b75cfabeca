"""Mechanisms: frozen values that describe a release, and nothing about its attackers.

A mechanism is a tree whose leaves are *steps* (Gaussian, Laplace, ...). A step has a *pair* of laws: P0 of the release
without the record, P1 with it. A pair *dominates* if no neighbouring data sets are easier to tell apart, and is
*attained* if some data sets are equally easy. A *part* holds the numbers of a step that an engine needs to compose it.
A *bracket* names the two theorems behind a lower and an upper bound. sigma is the noise over the largest contribution
of one record, and mu = 1/sigma.
"""
