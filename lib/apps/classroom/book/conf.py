"""Sphinx's settings for the book, and what the book adds to Sphinx: links to the glossary, and
no search in tokens.
"""

import re
from collections.abc import Mapping

from docutils import nodes
from sphinx.application import Sphinx

project = html_title = "Seeing what reward models value"
copyright = "The project's contributors, MIT licence"
extensions = ["myst_nb", "sphinx.ext.mathjax"]
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, str] = {}
nb_merge_streams = True
smartquotes = False  # pages print what was written, and glossary terms are recognised
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
mathjax_path = "tex-svg.js"
mathjax3_config = {"svg": {"fontCache": "global"}, "options": {"enableMenu": False}}
html_theme = "pydata_sphinx_theme"
# Pages with nothing below them, and the scorecard, whose table needs the room, show no menu of
# their part.
WITHOUT_MENU = (
    "index",
    "docs/GLOSSARY",
    "docs/TEACHING",
    "downloads",
    "benchmarks/*",
    "**/11_*",
)
html_sidebars = {page: [] for page in WITHOUT_MENU}
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_show_search_summary = False  # it prints folded words in clear
# sources hold folded words too, and answers
html_copy_source = html_show_sourcelink = False
html_show_sphinx = html_use_index = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_theme_options = {
    "logo": {"text": "What reward models value"},
    "header_links_before_dropdown": 5,
    "navbar_end": ["theme-switcher"],
    "primary_sidebar_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "search_bar_text": "Search the book",
    "footer_start": ["copyright"],
    "footer_end": [],
}

# in the HTML of outputs that show tokens, folded ones among them (see lib.show.display)
TOKENS = 'class="token'
GLOSSARY = "docs/GLOSSARY"
# Terms are not looked for in links, code, formulas, headings, pictures' captions, and outputs of
# notebooks.
LEFT_ALONE = (
    nodes.reference,
    nodes.literal,
    nodes.literal_block,
    nodes.math,
    nodes.math_block,
    nodes.title,
    nodes.raw,
    nodes.caption,
    nodes.pending,
)


def setup(app: Sphinx) -> None:
    """Connect what the book adds; Sphinx calls this."""
    app.connect("doctree-read", leave_tokens_out_of_search)
    app.connect("doctree-resolved", _link_terms)


def leave_tokens_out_of_search(app: Sphinx, page: nodes.document) -> None:
    """Mark outputs that show tokens with Sphinx's class no-search, because they hold folded
    words in clear.
    """
    for raw in page.findall(nodes.raw):
        if TOKENS in raw.astext():
            raw["classes"] += ["no-search"]


def _link_terms(app: Sphinx, page: nodes.document, docname: str) -> None:
    if docname != GLOSSARY and GLOSSARY in app.env.all_docs:
        place = app.builder.get_relative_uri(docname, GLOSSARY)
        anchors = anchors_of(app.env.get_doctree(GLOSSARY))
        link_first_uses(
            page, {form: f"{place}#{anchor}" for form, anchor in anchors.items()}
        )


def anchors_of(glossary: nodes.Node) -> dict[str, str]:
    """Return the anchor of each term, under its title and the forms of `*Also: another form*`,
    in small letters.
    """
    anchors: dict[str, str] = {}
    for section in (
        node
        for node in glossary.findall(nodes.section)
        if isinstance(node.parent, nodes.section)
    ):
        _, is_list, also = section[1].astext().partition("Also: ")
        others = also.split(", ") if is_list else []
        for form in [section[0].astext(), *others]:
            anchors.setdefault(form.lower(), section["ids"][0])
    return anchors


def link_first_uses(page: nodes.Node, addresses: Mapping[str, str]) -> None:
    """Make the first use of each term in the prose of a page a link to its explanation; the page is
    changed.

    addresses: form of a term in small letters -> address. Forms with one address are one term.
    """

    def is_prose(node: nodes.Node) -> bool:
        while (node := node.parent) is not None:
            if isinstance(node, LEFT_ALONE) or "output" in node.get("classes", []):
                return False
        return True

    longest_first = sorted(addresses, key=lambda form: (-len(form), form))
    forms = re.compile(
        rf"(?<![\w'’-])({'|'.join(map(re.escape, longest_first))})(?:s|es)?(?![\w-])",
        re.IGNORECASE,
    )
    seen: set[str] = set()
    texts = filter(is_prose, page.findall(nodes.Text))
    for text in list(texts):
        pieces = []
        end = 0
        for use in forms.finditer(text):
            address = addresses[use[1].lower()]
            if address not in seen:
                seen.add(address)
                link = nodes.reference(
                    "",
                    use[0],
                    refuri=address,
                    internal=True,
                    classes=["term"],
                )
                before = nodes.Text(text[end : use.start()])
                pieces += [before, link]
                end = use.end()
        if pieces:
            rest = nodes.Text(text[end:])
            text.parent.replace(text, [*pieces, rest])
