"""Means over words and models, resampling, exact relabelling and rankings."""
