"""Score every token of a vocabulary as the reply, in batches and shards, with whole models or
layer by layer.
"""
