"""The explorer: all rewards of a collection on one page that opens by double click, without a
server or a library.
"""
