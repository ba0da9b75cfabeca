"""Steps on batches of a fixed size: the pair that sampling makes, once the neighbours are known."""
