"""Trade-off curves of tests whose statistic T is a scaled noncentral chi-square number under both hypotheses."""
