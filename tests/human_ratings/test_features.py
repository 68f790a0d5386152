"""States that are kept in a file: read where they are the model's, computed anew where not."""

from types import SimpleNamespace

import pytest
import torch

from lib.human_ratings import features

REPLIES = ["joy", "war", "calm"]


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Return the lists of replies that a made-up model was given, and its weight."""
    seen = SimpleNamespace(replies=[], weight=1.0)

    def states(base, prompt, replies):
        seen.replies.append(list(replies))
        lengths = [[len(reply), len(prompt)] for reply in replies]
        return seen.weight * torch.tensor(lengths, dtype=torch.float32)

    monkeypatch.setattr(features, "KEPT", tmp_path)
    monkeypatch.setattr(features, "hidden_states", states)
    return seen


def test_states_are_computed_once(read):
    base = SimpleNamespace(name="tiny", dtype="float32")
    first = features.kept_states(base, "Which?", REPLIES)
    again = features.kept_states(base, "Which?", REPLIES)
    assert torch.equal(first, again) and first[:, 0].tolist() == [3, 3, 4]
    assert read.replies == [REPLIES, REPLIES[:1]]  # the second call reads one reply


def test_states_of_other_weights_or_a_cut_file_are_computed_anew(read, tmp_path):
    base = SimpleNamespace(name="tiny", dtype="float32")
    features.kept_states(base, "Which?", REPLIES)
    read.weight = 1.01
    anew = features.kept_states(base, "Which?", REPLIES)
    assert torch.allclose(anew[:, 0], 1.01 * torch.tensor([3.0, 3, 4]))
    (file,) = tmp_path.glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:40])
    assert torch.equal(features.kept_states(base, "Which?", REPLIES), anew)
