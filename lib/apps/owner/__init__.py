"""For owners of a reward model: opening, check, card, and a cluster."""
