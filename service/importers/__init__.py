"""Readers of the states of other libraries (Opacus, dp_accounting, TensorFlow Privacy, JAX Privacy, riskcal).

A *state* is the JSON of an accountant, an event or the arguments of a function. A reader translates it into a *draft*
of a mechanism, which the request schemas then validate. Errors point to the number in the state. No content of a state
is executed or imported.
"""
