"""A value card: what one reward model rewards, and where that lies among the ten published
models and the planted.
"""
