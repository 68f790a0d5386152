"""Applications of the library, by whom they serve: owner, runner and classroom."""
