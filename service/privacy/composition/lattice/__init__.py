"""Engine `discretised`: certified compositions of any steps with trade-off curves, on a lattice of privacy losses.

The loss of each step is rounded to multiples of a step size, once towards the attacker (*upper* law) and once away
(*lower* law). Both laws are composed by the discrete Fourier transform at one *tilt*: they are multiplied by e^{tilt
loss}, so that small tails keep their accuracy. A *window* is the range of losses that is kept. H0 and H1 are the laws
without and with the record.
"""
