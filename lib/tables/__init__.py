"""Score tables and collections, prompts and lexicons, the registry of models, and files that
others published.
"""
