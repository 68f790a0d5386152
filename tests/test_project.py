"""The project as a whole: pinned versions, floors of imports, small files, notebooks in the
house's style.
"""

import ast
import io
import json
import re
import shutil
import subprocess
import tokenize
import tomllib
from importlib.metadata import PackageNotFoundError, version

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import lib
from lib import ROOT

MB = 1_000_000
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|Users|root|tmp|work|mnt)/\w")


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def tracked() -> list:
    """The files that git tracks; the test is skipped where the project is no git repository."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git repository")
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [
        path for name in names.split("\0") if name and (path := ROOT / name).is_file()
    ]


# --- versions -------------------------------------------------------------------------------------


def test_every_dependency_is_pinned_and_installed_as_pinned():
    lines = [
        Requirement(line) for line in (ROOT / "requirements.lock").read_text().split()
    ]
    pinned = {
        canonicalize_name(line.name): str(line.specifier).removeprefix("==")
        for line in lines
    }
    wanted = sum(PYPROJECT["optional-dependencies"].values(), PYPROJECT["dependencies"])
    names = {canonicalize_name(Requirement(name).name) for name in wanted}
    assert names - {PYPROJECT["name"]} <= set(pinned)
    # What is not installed is needed on other platforms; a local label (2.1+cpu) is the same
    # version.
    differ = {
        name: (at, installed(name))
        for name, at in pinned.items()
        if installed(name) not in (None, at)
    }
    assert {
        name: pair for name, pair in differ.items() if pair[1].split("+")[0] != pair[0]
    } == {}


# --- floors ---------------------------------------------------------------------------------------

LIB = ROOT / "lib"
MOST_IN_FUNCTION = 350  # tokens of code
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def tokens_by_line(source: str) -> dict[int, int]:
    """Return line -> tokens of code that begin there; docstrings and comments are not counted."""
    nodes = [node for node in ast.walk(ast.parse(source)) if hasattr(node, "body")]
    documented = [
        node.body[0]
        for node in nodes
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node)
    ]
    prose = {
        line for text in documented for line in range(text.lineno, text.end_lineno + 1)
    }
    counts: dict[int, int] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type not in LAYOUT and line not in prose:
            counts[line] = counts.get(line, 0) + 1
    return counts


def tokens_of(node: ast.AST, counts: dict[int, int]) -> int:
    return sum(counts.get(line, 0) for line in range(node.lineno, node.end_lineno + 1))


def test_functions_keep_their_budget_of_tokens():
    large = {}
    for path in LIB.rglob("*.py"):
        source = path.read_text()
        counts = tokens_by_line(source)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                tokens = tokens_of(node, counts)
                large |= {node.name: tokens} if tokens > MOST_IN_FUNCTION else {}
    assert large == {}


def imports_of(tree: ast.AST, package: str) -> dict[str, str]:
    """What the imports of a file bind: name -> its whole name. package: of the file."""
    bound = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")
            above = above[: len(above) + 1 - node.level] if node.level else []
            place = ".".join(filter(None, [*above, node.module]))
            names = {each.asname or each.name: each.name for each in node.names}
            bound |= {name: f"{place}.{real}" for name, real in names.items()}
    return bound


def named_in(node: ast.AST, module: str, bound: dict[str, str]) -> set[str]:
    """The whole names that code names: those of its module, of imports, and of imported modules."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.add(bound.get(each.id, f"{module}.{each.id}"))
        elif isinstance(each, ast.Attribute):
            first, *rest = ast.unparse(each).split(".")
            found |= {".".join([bound.get(first, first), *rest]), f".{each.attr}"}
    return found


def test_all_of_lib_is_reached_from_a_notebook_or_a_command():
    """Names are followed from the numbered notebooks and lib/run.py."""
    defined, functions, reached, todo = {}, set(), set(), set()
    for path in LIB.rglob("*.py"):
        tree = ast.parse(path.read_text())
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        module = module.removesuffix(".__init__")
        is_package = path.name == "__init__.py"
        bound = imports_of(tree, module if is_package else module.rpartition(".")[0])
        # what one module takes from another may be named as its own
        defined |= {f"{module}.{name}": {place} for name, place in bound.items()}
        for node in tree.body:
            for part in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(part, ast.FunctionDef) and "__" not in part.name:
                    # a method is reached where something is reached that has its name
                    inside = named_in(part, module, bound)
                    defined.setdefault(f".{part.name}", set()).update(inside)
                    part.body = []
            named = named_in(node, module, bound)
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined[f"{module}.{node.name}"] = named
                functions.add(f"{module}.{node.name}")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = [
                    each for each in ast.walk(node) if isinstance(each, ast.Name)
                ]
                targets = [
                    each.id for each in targets if isinstance(each.ctx, ast.Store)
                ]
                defined |= {f"{module}.{name}": named for name in targets}
            else:
                todo |= named
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text())["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        tree = ast.parse("\n".join("".join(cell["source"]) for cell in code))
        todo |= named_in(tree, "notebook", imports_of(tree, ""))
    todo |= {name for name in defined if name.startswith("lib.run.")}
    while todo:
        name = todo.pop()
        reached.add(name)
        todo |= defined.get(name, set()) - reached
        # of an attribute of what one module takes from another
        inside, _, last = name.rpartition(".")
        todo |= {f"{place}.{last}" for place in defined.get(inside, ())} - reached
    left = [name for name in functions - reached if "__" not in name]
    assert left == []


def test_the_version_is_the_same_wherever_it_is_written():
    cited = re.search(
        r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE
    )[1]
    latest, day = re.search(
        r"^## (\d\S*) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    ).groups()
    assert lib.__version__ == cited == latest
    assert f"date-released: {day}\n" in (ROOT / "CITATION.cff").read_text()


# --- files ----------------------------------------------------------------------------------------


def test_tracked_files_are_small():
    sizes = {path: path.stat().st_size for path in tracked()}
    assert [path.name for path, size in sizes.items() if size > 5 * MB] == []
    assert sum(sizes.values()) < 30 * MB


def test_the_only_weights_are_two_embedding_tables_and_the_two_heads_of_v_smol():
    weights = [path for path in tracked() if path.suffix == ".safetensors"]
    names = {path.relative_to(ROOT / "data").as_posix() for path in weights}
    heads = {"rated_words_alone", "with_unlisted_tokens"}
    assert names == {f"human_ratings/{name}.safetensors" for name in heads} | {
        f"small_models/{base}/embedding.safetensors" for base in ("gem", "lla")
    }


def test_the_page_on_data_names_every_tracked_entry_of_data():
    tracked_entries = {
        path.relative_to(ROOT / "data").parts[0]
        for path in tracked()
        if ROOT / "data" in path.parents
    }
    named = re.findall(
        r"^\| `([\w.]+)/?` \|", (ROOT / "data" / "README.md").read_text(), re.MULTILINE
    )
    assert sorted(named) == named and set(named) == tracked_entries - {"README.md"}


def test_no_tracked_text_names_a_folder_of_somebodys_machine():
    assert MACHINE_PATH.search(" /home/somebody/x") and not MACHINE_PATH.search(
        "https://example.org/home/x"
    )
    text = (".py", ".ipynb", ".md", ".csv", ".toml", ".yml", ".cff", ".html", ".svg")
    found = {
        path.name: MACHINE_PATH.search(path.read_text())
        for path in tracked()
        if path.suffix in text
    }
    found.pop("test_project.py", None)  # this one names them
    assert {name: match[0] for name, match in found.items() if match} == {}


def test_every_link_of_a_page_leads_to_a_file_that_is_there():
    # which holds code
    found = [
        path for path in tracked() if path.suffix == ".md" and path.name != "faults.md"
    ]
    pages = {path: path.read_text(encoding="utf-8") for path in found}
    links = {
        (path, link)
        for path, text in pages.items()
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
    }
    # the book has its own root
    inside = {(path, link) for path, link in links if not link.startswith("/")}
    assert {
        f"{path.name}: {link}"
        for path, link in inside
        if not (path.parent / link).exists()
    } == set()


def test_the_numbered_notebooks_need_lib_alone():
    for path in NOTEBOOKS:
        assert not re.search(r"(?:from|import) (?:audit|course)\b", path.read_text())
