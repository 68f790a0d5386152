"""Check whether a reward model is scored as its makers meant, by its files, its class in
transformers, and pairs.
"""
