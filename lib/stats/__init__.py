"""Means over words and models, resampling, exact relabelling, regressions of pairs and multiverse analyses."""
