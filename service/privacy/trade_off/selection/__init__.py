"""Trade-off curves of the best of several runs: upper bounds by a hull of cells, lower bounds by attacks on scores."""
