"""Models: a conversation rendered, a checkpoint opened, its head, and what a reward or language model makes of it."""
