"""Scores that others published: fetched, read as score tables, and compared with a model run here."""
