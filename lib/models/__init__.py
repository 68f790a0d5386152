"""Models: render a conversation, open a checkpoint and its head, and run a reward model or a
language model.
"""
