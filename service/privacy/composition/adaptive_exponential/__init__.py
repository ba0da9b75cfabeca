"""Compositions with several exponential mechanisms, each of which may depend on earlier results.

The loss of an exponential step lies in an interval of known length, whose position (*shift*) an adversary may choose. A
recursion over privacy profiles gives an upper bound over all adaptive choices. Fixed shifts give a lower bound.
"""
