"""Mixed load over a long time: whether memory, processes, descriptors or files grow."""
