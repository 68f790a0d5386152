"""Means over words and models, resampling, exact relabelling, regressions of pairs, multiverse analyses."""
