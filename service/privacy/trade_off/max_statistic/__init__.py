"""What is told by the largest of many noisy numbers, one of which was moved."""
