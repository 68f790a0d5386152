"""Longer replies: searches for what a reward model rewards most and least, held against the truth (notebook 07)."""
