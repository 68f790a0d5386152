"""Weights that change during a run: no table or shard holds rewards of two models, and no run
ends without a line.
"""

import shutil

import huggingface_hub
import pytest
import tiny
from safetensors.torch import load_file, save_file

from audit.opening import open_model as load
from audit.reading.layers import Layers
from lib import InputError
from lib.scoring import vocabulary

pytestmark = pytest.mark.drill
PROMPTS = {
    "greatest": "What, in one word, is the greatest thing ever?",
    "worst": "What is the worst thing ever?",
}
PROMPT = PROMPTS["greatest"]


@pytest.fixture(scope="module")
def original(checkpoint):
    return checkpoint("linear_llama", shards=2)


@pytest.fixture
def folder(copy_of):
    return copy_of("linear_llama", shards=2)


def weights_of(folder):
    return sorted(folder.glob("*.safetensors"))[-1]


def other_weights(file):
    """Bytes of a file of the same size, with other numbers in it."""
    tensors = {name: tensor * 1.5 + 0.1 for name, tensor in load_file(file).items()}
    other = file.with_name("other.tmp")
    save_file(tensors, other, metadata={"format": "pt"})
    content = other.read_bytes()
    other.unlink()
    assert len(content) == file.stat().st_size
    return content


def overwrite(file):
    content = other_weights(file)
    with file.open("r+b") as out:
        out.write(content)


def test_a_file_of_a_streamed_model_that_goes_is_one_line(
    folder, tmp_path, monkeypatch
):
    model, path = (
        load(str(folder), device="cpu", stream=True),
        tmp_path / "table.parquet",
    )
    plain, done = Layers._tensors, []

    def changed_before_the_last(layers, number):
        if number == 2 and not done:
            done.append(weights_of(folder).unlink())
        return plain(layers, number)

    with monkeypatch.context() as patch:
        patch.setattr(Layers, "_tensors", changed_before_the_last)
        with pytest.raises(InputError, match="cannot be read any more"):
            vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    assert done and not path.exists()


# --- files edited in the cache of the hub ---------------------------------------------------------


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
    "weights": lambda folder: overwrite(weights_of(folder).resolve()),
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
