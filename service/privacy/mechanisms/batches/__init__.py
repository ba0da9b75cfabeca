"""Steps on batches of a fixed size: what their draw makes of a pair, once it is known who counts as a neighbour."""
