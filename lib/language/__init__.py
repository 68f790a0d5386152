"""What a language model says, and how much of it leaks into rewards (notebook 08)."""
