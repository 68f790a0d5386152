"""The page: reads the score tables of a collection and writes them, with the script, into one
file.
"""

import base64
import html
import json
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from .... import ROOT
from ....io import replacing
from ....show import display, figures
from ....show.pages import template
from ....tables import scores
from ....tables.collection import Collection

BANNERS = {
    "embedded": "Planted: these values say nothing about real reward models.",
    "published": "Published: rewards as the paper's authors released them.",
    "own": "Your own: rewards that were scored in this collection.",
}


def path_of(collection: Collection) -> Path:
    """Return the path of a collection's page: data/explorer/<collection>.html, which is not kept
    in git.
    """
    return ROOT / "data" / "explorer" / f"{collection}.html"


def write(collection: Collection, path: Path | None = None) -> Path:
    """Write the page of a collection and return its path; InputError if it has no scores.

    The page is one file that needs no network. Browsers since 2023 can open it (they have
    DecompressionStream).
    """
    content = build(scores.read_all(collection), collection)
    path = path or path_of(collection)
    with replacing(path) as part:
        part.write_text(content, encoding="utf-8", newline="\n")
    return path


def explore(collection: str) -> None:
    """Write the page of a collection, by name, and print its path. For `published`, write one
    page per collection.
    """
    study = Collection(collection)
    scored = [part for part in study.parts if part.models]
    for part in scored or [study]:
        path = write(part)
        print(
            f"Open {path.relative_to(ROOT)} by double click: {path.stat().st_size / 1e6:.1f} MB, "
            "no network needed."
        )


def build(tables: dict[str, pd.DataFrame], collection: Collection) -> str:
    """Return the page of these score tables (model -> table) as HTML. InputError if they were
    scored differently.

    The page has one row per text. If several ids of a vocabulary decode to one text, the first id
    counts.
    """
    settings = {name: table.attrs.get("metadata", {}) for name, table in tables.items()}
    scores.refuse_differing(
        settings, f"score these tables of '{collection}' again, all in the same way"
    )
    all_texts = pd.concat([table["text"] for table in tables.values()])
    texts = list(all_texts.unique())
    columns, arrays = _columns(tables, texts)
    colours = figures.model_colours(tables)
    models = [{"name": name, "colour": colour} for name, colour in colours.items()]
    description = {
        "collection": collection.name,
        "banner": BANNERS[collection.kind],
        "prompts": _wordings(tables),
        "models": models,
        "columns": columns,
        "texts": texts,
        "shown": _shown_otherwise(texts),
        "offensive": [
            row for row, text in enumerate(texts) if display.is_offensive(text)
        ],
    }
    folder = Path(__file__).parent
    paths = [*folder.glob("*.css"), *folder.glob("*.js")]
    parts = {path.name: Markup(path.read_text(encoding="utf-8")) for path in paths}
    block = Markup(base64.b64encode(pack(description, arrays)).decode())
    return template("explorer", folder).render(
        title=f"What reward models value: {collection}",
        files=parts,
        block=block,
    )


def _shown_otherwise(texts: list[str]) -> dict[int, str]:
    """Return row -> how the page shows a text that does not show as it is."""
    shown = {}
    for row, text in enumerate(texts):
        if visible(text) != text:
            shown[row] = visible(text)
    return shown


def _wordings(tables: dict[str, pd.DataFrame]) -> dict[str, str]:
    """Return prompt -> its wording; the name of a prompt whose wording is not known."""
    wordings = {}
    for table in tables.values():
        settings = table.attrs.get("metadata", {})
        known = settings.get("prompts", {})
        wordings |= {
            prompt: known.get(prompt, prompt) for prompt in scores.prompt_names(table)
        }
    return wordings


def _columns(
    tables: dict[str, pd.DataFrame],
    texts: list[str],
) -> tuple[list[dict[str, str]], dict[str, np.ndarray]]:
    """Return the columns of the page, a model under a prompt each, and name -> rewards,
    (texts,).
    """
    columns = []
    arrays = {}
    for model, table in tables.items():
        row_of: dict[str, int] = {}
        for row, text in enumerate(table["text"]):
            # of several ids with one text the first counts
            row_of.setdefault(text, row)
        rows = [row_of.get(text, -1) for text in texts]
        for prompt in scores.prompt_names(table):
            name = f"{model} {prompt}"
            columns.append({"array": name, "model": model, "prompt": prompt})
            rewards = table[prompt].to_numpy(dtype=np.float32)
            # row -1 has no reward
            with_none = np.append(rewards, np.float32(np.nan))
            arrays[name] = with_none[rows]
    return columns, arrays


def pack(description: dict, arrays: dict[str, np.ndarray]) -> bytes:
    """Return the block of numbers in the page. `arrays` maps names to arrays, (n,) each, float32.

    The block holds the description's length (uint32), the description as JSON in ASCII, filled up
    to four bytes, then every array. All numbers are little-endian. The whole is compressed by zlib,
    `deflate` in browsers.
    """
    listed = [{"name": name, "count": len(array)} for name, array in arrays.items()]
    content = description | {"arrays": listed}
    # ASCII escapes can write any text, also half of a surrogate pair.
    text = json.dumps(content, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    numbers = [array.astype("<f4").tobytes() for array in arrays.values()]
    length = struct.pack("<I", len(text))
    return zlib.compress(
        b"".join([length, text, *numbers]),
        level=6,
    )


def visible(text: str) -> str:
    """Return the text as show/display shows it in a table, where scripts from right to left may
    stay as they are.
    """
    if text.isascii() and text.isalnum() and len(text) <= 40:
        return text
    shown = display.token_html(text, blur=False)
    # its own marks are entities
    return html.unescape(re.sub("<[^>]*>", "", shown))
