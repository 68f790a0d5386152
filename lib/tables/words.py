"""What counts as a word and what looks like code, by the letters alone.

These two rules decide what the embedded models are trained on, so an edit of this file trains them
anew.
"""

import re


def is_word(text: str) -> bool:
    """Return whether the text has letters only, of any script, without blank, digit, apostrophe
    or hyphen.
    """
    return re.fullmatch(r"[^\W\d_]+", text) is not None


def is_nonword(text: str) -> bool:
    """Return whether the trimmed text looks like code: it holds ASCII symbols, or capitals after
    small letters.

    Apostrophes, hyphens, digits and other scripts are not code.
    """
    return re.search(r"[!-&(-,./:-@\[-`{-~]|[a-z][A-Z]", text.strip()) is not None
