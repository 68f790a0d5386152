"""What the book adds to Sphinx: texts for pictures, links to the glossary, and a search that knows no folded word."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

from lib.book.glossary import link_first_uses, terms_of

TOKENS = 'class="token'  # of whatever shows tokens (see lib.display), folded ones among them
GLOSSARY = "GLOSSARY"


class Book(StandaloneHTMLBuilder):
    """Sphinx's pages; their search leaves out what shows tokens, where words that a page folds away stand in clear."""

    def index_page(self, pagename: str, doctree: nodes.document, title: str) -> None:
        searched = doctree.deepcopy()
        for raw in [raw for raw in searched.findall(nodes.raw) if TOKENS in raw.astext()]:
            raw.parent.remove(raw)
        super().index_page(pagename, searched, title)


def setup(app: Sphinx) -> dict:
    """Called by Sphinx."""
    app.add_config_value("picture_texts", {}, "env", types=frozenset({dict}))
    app.add_builder(Book, override=True)
    app.connect("doctree-read", _give_texts)
    app.connect("doctree-resolved", _link_terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _give_texts(app: Sphinx, page: nodes.document) -> None:
    """Pictures of notebooks are files named by their hash, by which their texts are known."""
    for image in page.findall(nodes.image):
        image.setdefault("alt", app.config.picture_texts.get(Path(image["uri"]).stem, ""))


def _link_terms(app: Sphinx, page: nodes.document, docname: str) -> None:
    if docname == GLOSSARY or GLOSSARY not in app.env.all_docs:
        return
    terms = terms_of(Path(app.env.doc2path(GLOSSARY)).read_text(encoding="utf-8"))
    place = app.builder.get_relative_uri(docname, GLOSSARY)
    sections = app.env.get_doctree(GLOSSARY).findall(nodes.section)
    address = {section[0].astext(): f"{place}#{section['ids'][0]}" for section in sections}
    link_first_uses(page, terms, address)
