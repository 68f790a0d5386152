"""The glossary's terms, and which word of a page is the first that one of them explains."""

import functools
import re
from collections.abc import Iterator, Mapping

from docutils import nodes

ALSO = re.compile(r"^\*Also: (.+)\*$", re.MULTILINE)
# What a term is not looked for in: links, code, formulas, headings, pictures' captions, and what notebooks showed.
LEFT_ALONE = (nodes.reference, nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.title,
              nodes.raw, nodes.caption, nodes.pending)  # fmt: skip


def terms_of(glossary: str) -> dict[str, str]:
    """Each way to write a term, in small letters -> the term as its heading has it, of the glossary's Markdown.

    A section begins with `## Term`, and may say `*Also: another form, one more*` below it.
    """
    found: dict[str, str] = {}
    for section in re.split(r"^## ", glossary, flags=re.MULTILINE)[1:]:
        heading, _, rest = section.partition("\n")
        also = ALSO.search(rest)
        for form in [heading, *(also[1].split(", ") if also else [])]:
            found.setdefault(form.strip().lower(), heading.strip())
    return found


@functools.cache
def _pattern(forms: frozenset[str]) -> re.Pattern:
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile(rf"(?<![\w'’-])({'|'.join(map(re.escape, longest_first))})(?:s|es)?(?![\w-])", re.IGNORECASE)


def link_first_uses(page: nodes.Node, terms: Mapping[str, str], address: Mapping[str, str]) -> None:
    """Make the first use of each term in the prose of a page a link to its explanation; the page is changed.

    terms: as of terms_of. address: of each term's explanation, as seen from the page.
    """
    seen: set[str] = set()
    for text in [text for text in page.findall(nodes.Text) if _is_prose(text)]:
        parts = list(_linked(str(text), terms, address, seen))
        if any(isinstance(part, nodes.reference) for part in parts):
            text.parent.replace(text, parts)


def _is_prose(text: nodes.Text) -> bool:
    node = text.parent
    while node is not None:
        if isinstance(node, LEFT_ALONE) or "output" in node.get("classes", []):
            return False
        node = node.parent
    return True


def _linked(text: str, terms: Mapping[str, str], address: Mapping[str, str], seen: set[str]) -> Iterator[nodes.Node]:
    """The text in pieces, with a link in the place of each term that was not seen before."""
    end = 0
    for found in _pattern(frozenset(terms)).finditer(text):
        term = terms[found[1].lower()]
        if term in seen or term not in address:
            continue
        seen.add(term)
        yield from [nodes.Text(text[end : found.start()])] if found.start() > end else []
        yield nodes.reference("", found[0], refuri=address[term], internal=True, classes=["term"])
        end = found.end()
    if end < len(text):
        yield nodes.Text(text[end:])
