"""Small pinned files for tests: a mirror of its own, with the ten models of the paper, and
nothing from the network.
"""

import csv
import hashlib
import io
from pathlib import Path

import pytest

from lib.tables import collection, downloads, score_files
from lib.tables.prompts import grid

COMMIT = "c0ffee"


def csv_bytes(header, rows) -> bytes:
    """A csv as Python writes it, with `\\n` at the end of each line."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


class Mirror:
    """A folder that DATA_MIRROR names, and a registry that pins what is put there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.project, self.folder, self.pins = folder / "project", folder / "mirror", {}
        (self.project / "data").mkdir(parents=True)
        self.folder.mkdir()
        self._write_registry()
        for module in (downloads, collection):
            monkeypatch.setattr(module, "ROOT", self.project)
        monkeypatch.setattr(downloads, "DATA", self.project / "data")
        monkeypatch.setenv(downloads.MIRROR, str(self.folder))
        # The network is never used: whoever asks for it is told that it is not there.
        monkeypatch.setattr("requests.get", self.unreachable)

    @staticmethod
    def unreachable(address: str, **options):
        raise downloads.requests.ConnectionError(address)

    def pin(self, repository: str, path: str, content: bytes, model="") -> None:
        """Pin a file without putting it anywhere."""
        # Written out, so that it is a second opinion on downloads.git_blob_id.
        blob_id = hashlib.sha1(
            b"blob " + str(len(content)).encode() + bytes([0]) + content
        ).hexdigest()
        self.pins[repository, path] = (
            f'{repository},{COMMIT},"{path}",{model},{blob_id},{len(content)}'
        )
        self._write_registry()

    def put(self, repository: str, path: str, content: bytes, model="") -> Path:
        """Pin a file and put it into the mirror."""
        self.pin(repository, path, content, model)
        file = self.folder / repository / COMMIT / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def _write_registry(self) -> None:
        lines = ["repository,commit,path,model,git_blob_id,bytes", *self.pins.values()]
        (self.project / "data" / "downloads.csv").write_text("\n".join(lines) + "\n")


def words_csv(words, first) -> bytes:
    """A word file: the reward of word i for prompt j is first + i + j / 100."""
    columns = grid()["published"]
    rows = [
        [word, *(repr(first + i + j / 100) for j in range(len(columns)))]
        for i, word in enumerate(words)
    ]
    return csv_bytes(["response", *columns], rows)


def items_csv(items, first=0.0) -> bytes:
    """An item file: the reward of item i by model j is first + i + j / 100; the ratings fall by
    10 from 1600.
    """
    hub_ids = list(score_files.papers_models().values())
    rows = [
        [
            i + 1,
            1600 - 10 * i,
            item,
            100 + i,
            *(repr(first + i + j / 100) for j in range(len(hub_ids))),
        ]
        for i, item in enumerate(items)
    ]
    return csv_bytes(["elo_rank", "elo_score", "name", "elo_matches", *hub_ids], rows)


def put_words(
    mirror: Mirror, moral=("love", "null", "hate"), nouns=("NA", "love")
) -> None:
    """Word files of ten models, model k's rewards shifted by 10 k; the noun files' rewards by
    another 0.5.
    """
    for k, (name, hub_id) in enumerate(score_files.papers_models().items()):
        end = f"_rewards_{hub_id.replace('/', '_')}.csv"
        for path, words, first in (
            ("dict_MFD_20/MFD20", moral, 10 * k),
            ("dict_big2_nouns/big2", nouns, 10 * k + 0.5),
        ):
            path, content = (
                f"data/reward_model_scores/{path}{end}",
                words_csv(words, first),
            )
            mirror.put(score_files.FOLLOW_UP, path, content, name)


def put_items(mirror: Mirror, items=("Water", "None", "Rain, or snow")) -> None:
    """The three item files, prompt k's rewards shifted by 10 k."""
    for k, prompt in enumerate(score_files.ITEM_PROMPTS):
        path, content = score_files.item_file(prompt), items_csv(items, 10 * k)
        mirror.put(score_files.PAPER, path, content)
