"""How alike reward models are, and what that goes with (notebooks 02 and 03)."""
