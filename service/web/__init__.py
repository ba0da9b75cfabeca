"""What people look at: the explorer page, pictures and reports. It computes no number."""
