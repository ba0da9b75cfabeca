"""Threat models: attackers, each as a way from a mechanism to the trade-off curves that hold against it.

The *worst case* is the attacker of differential privacy. A *relaxed* attacker has less knowledge or fewer options. A
*plan* is the chosen composition engine with its grid and cost, before any evaluation. The *direction* add has the null
hypothesis without the record, remove with it. The *susceptibility* K is the squared length of the whitened, centred
gradient of a record.
"""
