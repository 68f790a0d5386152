"""Resampling: bootstrap draws, the interval that they give, and permutations of models."""

INTERVAL = (0.025, 0.975)  # quantiles of draws that make a 95% interval
