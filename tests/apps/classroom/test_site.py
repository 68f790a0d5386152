"""The site: every link leads somewhere, nothing is asked for elsewhere, and addresses come from
the repository.
"""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from lib import ROOT, InputError
from lib.apps.classroom.course.making import requirements
from lib.apps.classroom.site import gathering
from lib.apps.runner.files import find_notebooks


class Page(HTMLParser):
    """The links of a page as (tag, address), and its anchors."""

    def __init__(self, text: str):
        super().__init__()
        self.links, self.anchors = [], {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.links += [
            (tag, value) for name, value in attrs if name in ("href", "src") and value
        ]
        self.anchors |= {
            value for name, value in attrs if name in ("id", "name") and value
        }


def broken_links(folder: Path) -> list[str]:
    """Return "page: address" for each link to no file or anchor of the site, and each request
    that would leave it.
    """
    # templates of the theme
    paths = [path for path in folder.rglob("*.html") if "_static" not in path.parts]
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in paths}

    def is_good(path: Path, tag: str, address: str) -> bool:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            return tag == "a" or parts.scheme == "data"
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        return target.is_file() and (
            target not in pages or unquote(parts.fragment) in pages[target].anchors
        )

    return [
        f"{path.relative_to(folder.resolve())}: {address}"
        for path, page in pages.items()
        for tag, address in page.links
        if not is_good(path, tag, address)
    ]


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> dict[str, Path]:
    """Stub pages in the places of the book's pages, and a stub of the folder for a class."""
    folder = tmp_path_factory.mktemp("parts")
    pages = [
        "index",
        "docs/GLOSSARY",
        "docs/TEACHING",
        "benchmarks/calibration",
        "explorer/published-words",
        "explorer/published-items",
    ]
    for page in [
        *pages,
        *(f"notebooks/{path.stem}" for path in find_notebooks(ROOT / "notebooks")),
    ]:
        place = folder / "book" / f"{page}.html"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("<h1 id='here'>a page</h1>")
    files = [folder / place for place in gathering.PARTS if place != "book"]
    for file in files:
        file.write_bytes(b"")
    return {path.name: path for path in [folder / "book", *files]}


@pytest.mark.parametrize("repository", ["", "someone/a-copy"])
def test_every_link_of_the_site_leads_somewhere(parts, repository, tmp_path):
    first = gathering.gather(tmp_path / "site", parts, repository)
    # an earlier site is replaced
    gathering.gather(tmp_path / "site", parts, repository)
    assert broken_links(first.parent) == []
    addresses = [address for _, address in Page(first.read_text()).links]
    assert sum(address.startswith("book/notebooks/") for address in addresses) > 13
    assert [address for address in addresses if address.startswith("../")] == []
    outside = [
        address for address in addresses if "github" in address or "binder" in address
    ]
    assert all(f"/{repository}/" in address for address in outside)
    # Binder for notebooks 02 to 07, Colab for 00 to 07, and three links to documents that are no
    # page of the book
    assert len(outside) == (6 + 8 + 3 if repository else 0)


def test_the_built_site_has_no_broken_link_and_data_beside_each_notebook():
    if not (gathering.SITE / "index.html").is_file():
        pytest.skip("the site is not built yet: python -m lib.apps.classroom site")
    assert broken_links(gathering.SITE) == []
    for path in find_notebooks(ROOT / "notebooks"):
        page = Page(
            (gathering.SITE / "book" / "notebooks" / f"{path.stem}.html").read_text(
                encoding="utf-8"
            )
        )
        assert any(address.startswith("../tables/") for _, address in page.links), (
            path.stem
        )


def test_a_missing_part_is_named_and_the_earlier_site_stays(parts, tmp_path):
    first = gathering.gather(tmp_path / "site", parts)
    with pytest.raises(
        InputError,
        match=r"class\.zip of the site is missing; run: make reproduce published",
    ):
        gathering.gather(tmp_path / "site", parts | {"class.zip": tmp_path / "absent"})
    assert first.is_file()


def test_notebooks_for_colab_first_get_the_project_from_its_address(parts, tmp_path):
    gathering.gather(tmp_path / "site", parts, "someone/a-copy")
    copies = find_notebooks(tmp_path / "site" / "colab")
    assert [path.name[:2] for path in copies] == [
        "00",
        "01",
        "02",
        "03",
        "04",
        "05",
        "06",
        "07",
    ]
    for path in copies:
        notebook, committed = (
            nbformat.read(path, 4),
            nbformat.read(ROOT / "notebooks" / path.name, 4),
        )
        assert (
            "https://github.com/someone/a-copy /content/project"
            in notebook.cells[0].source
        )
        assert notebook.cells[1:] == committed.cells


def test_binder_installs_the_packages_of_the_light_installation():
    listed = (ROOT / ".binder" / "requirements.txt").read_text().splitlines()
    assert listed == requirements(loads_models=False)
