"""How far reward models agree with people (notebook 06)."""
