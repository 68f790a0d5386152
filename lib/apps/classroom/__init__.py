"""For a course and its readers: book, course, explorer and site."""
