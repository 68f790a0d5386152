"""Applications of the library: value cards, checks, the explorer, the course, the book and runs
on clusters.
"""
