"""Applications of the library: the runner of its notebooks."""
