"""Applications of the library, by whom they serve: owner and runner."""
