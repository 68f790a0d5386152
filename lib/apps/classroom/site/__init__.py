"""The site: front page, book, explorer and class folder in one folder of pages, which open by
double click.
"""
