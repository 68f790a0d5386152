"""Tokens that are safe to show, figures in one style, and the charts that several notebooks
share.
"""
