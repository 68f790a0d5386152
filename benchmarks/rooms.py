"""The picture of the library's rooms, drawn from its imports: python -m benchmarks.rooms."""

import re
from pathlib import Path

from lib import ROOT
from lib.show import figures

IMPORT = re.compile(r"^\s*from (\.+)([\w.]*) import (\w+)", re.MULTILINE)


def imports_of_rooms(library: Path = ROOT / "lib") -> dict[str, set[str]]:
    """Return, for each folder of the library, the folders that its modules import; modules at
    the top are left out.
    """
    rooms = {
        folder.name: set()
        for folder in library.iterdir()
        if (folder / "__init__.py").is_file()
    }
    for name, imported in rooms.items():
        for path in (library / name).rglob("*.py"):
            # so many dots lead from this module to the library
            depth = len(path.relative_to(library).parts)
            for dots, module, first in IMPORT.findall(path.read_text(encoding="utf-8")):
                if len(dots) == depth:
                    imported.add((module or first).partition(".")[0])
        imported &= rooms.keys() - {name}
    return rooms


def floors(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the rooms from the ground up: a room stands one floor above the highest room that
    it imports.
    """
    placed: list[list[str]] = []
    while left := imports.keys() - {name for floor in placed for name in floor}:
        placed.append(sorted(name for name in left if not imports[name] & left))
        if not placed[-1]:
            raise ValueError(
                f"these rooms import each other: {', '.join(sorted(left))}"
            )
    return placed


def draw_rooms(imports: dict[str, set[str]]) -> figures.Chart:
    """Draw the rooms by floor, with the rooms that each imports from the floor right below."""
    placed = floors(imports)
    width = max(map(len, placed))
    figure = figures.new_chart(
        9,
        0.85 * len(placed) + 0.6,
        "Rooms of the library: each imports only from lower floors",
    )
    axes = figure.subplots()
    axes.set(xlim=(0, width), ylim=(-0.5, len(placed) - 0.5))
    axes.set_axis_off()
    where = {
        name: ((place + 0.5) * width / len(floor), height)
        for height, floor in enumerate(placed)
        for place, name in enumerate(floor)
    }
    for name, (x, y) in where.items():
        for other in imports[name]:
            if y - where[other][1] == 1:
                axes.plot(
                    [x, where[other][0]],
                    [y, y - 1],
                    color="#cccccc",
                    linewidth=1,
                    zorder=0,
                )
        axes.text(
            x,
            y,
            name,
            ha="center",
            va="center",
            bbox={
                "boxstyle": "round,pad=0.4",
                "facecolor": "white",
                "edgecolor": figures.GREY,
            },
        )
    return figure


if __name__ == "__main__":
    figures.style()
    picture, _ = draw_rooms(imports_of_rooms())._repr_png_()
    (ROOT / "docs" / "rooms.png").write_bytes(picture)
