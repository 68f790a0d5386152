"""The book: notebooks, glossary and teaching plan as one folder of pages, to be read in a
browser without a network.
"""
