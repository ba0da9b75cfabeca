"""Comparisons (`POST /v1/comparisons`): which of several runs is harder to attack, by numbers and by whole curves.

A *run* is a mechanism with an attacker. A *quantity* is one number that all runs have. A *pair* is two runs whose
trade-off curves are compared.
"""
