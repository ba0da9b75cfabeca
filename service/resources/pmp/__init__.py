"""Practical membership privacy (PMP, `POST /v1/pmp/...`): the attacker does not know which records were used.

The *parent set* is the population of records. Its random half is the data of the mechanism. The *PMP parameter* epsilon
bounds how much more likely a record is in the data, given the output.
"""
