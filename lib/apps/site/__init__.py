"""The site: front page, book, explorer and class folder as one folder of pages, for a server or a double click."""
