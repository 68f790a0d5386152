"""Weights that change during a run: no table or shard holds rewards of two models, and no run
ends without a line.
"""

import multiprocessing
import os
import shutil

import huggingface_hub
import pandas as pd
import pytest
import tiny
from safetensors.torch import load_file, save_file

from audit.opening import open_model as load
from audit.reading.layers import Layers
from lib import InputError
from lib.models import checkpoints, language_models
from lib.scoring import vocabulary
from lib.scoring.reader import Reader

pytestmark = pytest.mark.drill
PROMPTS = {
    "greatest": "What, in one word, is the greatest thing ever?",
    "worst": "What is the worst thing ever?",
}
PROMPT = PROMPTS["greatest"]
CHANGED = "was changed while the model was in use.*load the model again"


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


def replace_file(file):
    other = file.with_name("new.tmp")
    other.write_bytes(other_weights(file))
    os.replace(other, file)


def overwrite(file):
    content = other_weights(file)
    with file.open("r+b") as out:
        out.write(content)


def overwrite_and_set_times_back(file):
    status = file.stat()
    overwrite(file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def swap_two_files(file):
    first = sorted(file.parent.glob("*.safetensors"))[0]
    first.rename(file.with_name("aside.tmp"))
    file.rename(first)
    file.with_name("aside.tmp").rename(file)


CHANGES = {
    "replaced": replace_file,
    "overwritten": overwrite,
    "times set back": overwrite_and_set_times_back,
    "cut short": lambda file: os.truncate(file, file.stat().st_size // 2),
    "removed": lambda file: file.unlink(),
    "swapped": swap_two_files,
}


def before_the_second_shard(monkeypatch, act):
    """Act once, where the streamed model reads its last layer."""
    done = []

    def then(plain, is_time):
        def wrapped(*given, **options):
            if is_time(*given) and not done:
                done.append(act())
            return plain(*given, **options)

        return wrapped

    monkeypatch.setattr(
        Layers,
        "_tensors",
        then(Layers._tensors, lambda layers, number: number == 2),
    )
    return done


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_of_a_streamed_model_that_changes_is_refused_and_no_wrong_reward_is_kept(
    folder, original, tmp_path, monkeypatch, change
):
    monkeypatch.setattr(Reader, "per_shard", 100)
    model, path = (
        load(str(folder), device="cpu", stream=True),
        tmp_path / "table.parquet",
    )
    with monkeypatch.context() as patch:
        done = before_the_second_shard(
            patch, lambda: CHANGES[change](weights_of(folder))
        )
        with pytest.raises(
            InputError, match=f"{CHANGED}|cannot be read any more"
        ) as caught:
            vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    assert done and "\n" not in str(caught.value) and not path.exists()
    shutil.rmtree(folder)
    # as it was: what is kept of the run goes into the table
    shutil.copytree(original, folder)
    table = vocabulary.score_vocabulary(
        load(str(folder), device="cpu", stream=True), PROMPTS, path, progress=False
    )
    whole = vocabulary.score_vocabulary(
        load(str(original), device="cpu"),
        PROMPTS,
        tmp_path / "w.parquet",
        progress=False,
    )
    pd.testing.assert_frame_equal(table, whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("weights", "streamed"),
        ("config.json", "reward"),
        ("tokenizer.json", "language"),
        ("chat_template.jinja", "reward"),
    ],
)
def test_a_file_that_changes_between_hashing_and_loading_is_refused(
    original, tmp_path, monkeypatch, kind, name
):
    folder = shutil.copytree(original, tmp_path / "model")
    if kind == "language":
        config = (
            (folder / "config.json")
            .read_text()
            .replace("ForSequenceClassification", "ForCausalLM")
        )
        (folder / "config.json").write_text(config)
        for file in folder.glob("*.safetensors"):
            tensors = {
                name: tensor
                for name, tensor in load_file(file).items()
                if not name.startswith("score")
            }
            save_file(tensors, file, metadata={"format": "pt"})
    loads = {
        "reward": lambda: load(str(folder), device="cpu"),
        "streamed": lambda: load(str(folder), device="cpu", stream=True),
        "language": lambda: language_models.load(str(folder), device="cpu"),
    }
    loads[kind]()
    file, plain = (
        weights_of(folder) if name == "weights" else folder / name,
        checkpoints.config_of,
    )

    def changed_first(place):
        file.write_bytes(
            other_weights(file) if name == "weights" else file.read_bytes() + b"\n"
        )
        return plain(place)

    monkeypatch.setattr(checkpoints, "config_of", changed_first)
    with pytest.raises(InputError, match=f"{file} {CHANGED}"):
        loads[kind]()


def cut_while_in_use(folder):
    model = load(str(folder), device="cpu", stream=False)
    read = Reader(model, model.inputs_for("Why?", ["love", "war"]))
    one = read.inputs.suffixes[:1]
    before = read.rewards(one)
    for file in folder.glob("*.safetensors"):
        os.truncate(file, 100)
    assert (read.rewards(one) == before).all()  # as in a search


def test_a_file_that_is_cut_short_does_not_end_the_process(folder):
    process = multiprocessing.get_context("fork").Process(
        target=cut_while_in_use, args=(folder,)
    )
    process.start()
    process.join()
    assert process.exitcode == 0  # what fails in it is 1, a bus error less than 0


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


def linked(file):
    return file.resolve()


EDITED = {
    "weights": lambda folder: overwrite(linked(weights_of(folder))),
    "weights behind another link": lambda folder: replace_file(weights_of(folder)),
    "template": lambda folder: (folder / "chat_template.jinja").write_text(
        tiny.TEMPLATES["llama3"]
    ),
    "config": lambda folder: linked(folder / "config.json").write_text(
        (folder / "config.json")
        .read_text()
        .replace('"rms_norm_eps": 1e-05', '"rms_norm_eps": 0.5')
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
