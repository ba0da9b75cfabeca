"""Sweeps (`POST /v1/sweeps`): the same questions at many values of some numbers of a run.

A *point* is one combination of the varied numbers, and a request for bounds of its own. A *block* is a range of points
that are evaluated together. A *chunk* is the range of points that a job computes in one piece.
"""
