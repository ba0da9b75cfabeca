"""Resources: pure functions from a validated request to a response, one for each path such as `/v1/bounds`.

A request describes a *run* (a mechanism, for example the steps of a training run), an attacker (*threat model*) and
questions. A *plan* is the chosen composition engine with its grid, before any evaluation. The *quote* of a request is
its estimated cost in units of about 1 us of CPU time, with its plans. The *allowance* is the counted work that a
request may use; each evaluation gets a *share* of it. The *worst case* is the strongest attacker, and other attackers
are *relaxed*.
"""
