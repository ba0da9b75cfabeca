"""Short runs of sampled Gaussian steps: both laws of the loss on few uneven cells, for the whole trade-off curve."""
