"""Files that are edited between two runs: no table holds rewards of two models."""

import shutil

import huggingface_hub
import pytest
import tiny

from audit.opening import open_model as load
from lib import InputError
from lib.scoring import vocabulary

pytestmark = pytest.mark.drill
PROMPTS = {
    "greatest": "What, in one word, is the greatest thing ever?",
    "worst": "What is the worst thing ever?",
}


@pytest.fixture(scope="module")
def original(checkpoint):
    return checkpoint("linear_llama", shards=2)


def change_a_number(folder):
    """Change a bit of the last weight, in place."""
    file = sorted(folder.glob("*.safetensors"))[-1].resolve()
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.fixture
def hub_cache(original, tmp_path, monkeypatch):
    """A snapshot of the checkpoint as the hub's cache has it: links to files that are named by
    their content.
    """
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "0123456789abcdef"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(original.iterdir())):
        shutil.copy(file, blobs / str(number))
        (snapshot / file.name).symlink_to(blobs / str(number))
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda *given, **options: str(snapshot)
    )
    return snapshot


EDITED = {
    "weights": change_a_number,
    "template": lambda folder: (folder / "chat_template.jinja").write_text(
        tiny.TEMPLATES["llama3"]
    ),
}


@pytest.mark.parametrize("edit", EDITED)
def test_a_file_that_was_edited_in_the_hubs_cache_makes_another_model(
    hub_cache, tmp_path, edit
):
    path, given = tmp_path / "table.parquet", {"token_ids": [5, 6], "progress": False}
    before = load("owner/model", device="cpu")
    assert before.revision.startswith("0123456789abcdef ")
    vocabulary.score_vocabulary(before, PROMPTS, path, **given)
    # nothing was edited
    vocabulary.score_vocabulary(
        load("owner/model", device="cpu"), PROMPTS, path, **given
    )
    EDITED[edit](hub_cache)
    with pytest.raises(InputError, match="other settings .*revision"):
        vocabulary.score_vocabulary(
            load("owner/model", device="cpu"), PROMPTS, path, **given
        )
