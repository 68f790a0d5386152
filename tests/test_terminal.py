"""Nothing that is printed of a foreign text acts on the terminal."""

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from lib.io import visible


@given(
    text=st.text(st.characters(categories=None)) | st.text("\x1b[]A\r\n\x9b0;m\u202e")
)
def test_nothing_in_a_text_acts_and_what_is_seen_stays(text):
    shown = visible(text)
    acting = ("Cc", "Cf", "Cs", "Zl", "Zp")
    assert not [
        c for c in shown if c not in "\n\t" and unicodedata.category(c) in acting
    ]
    if "⟨" not in text:
        seen = filter(str.isprintable, re.sub("⟨U[^⟩]*⟩", "", shown))
        assert "".join(seen) == "".join(filter(str.isprintable, text))
    assert visible("café נפת 爱 <b>") == "café נפת 爱 <b>"
