"""What a teacher needs: checks of exercises, blank copies, the site, slides and the explorer.

It knows lib, and lib does not know it.
"""
