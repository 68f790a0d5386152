"""Longer replies: searches for what a reward model rewards most and least (notebook 08)."""
