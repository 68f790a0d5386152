"""A training of two processes (DDP over gloo) makes one card of each step, and does not hang."""

import subprocess
import sys

import pandas as pd
import pytest
import tiny

from lib import ROOT

pytestmark = [pytest.mark.drill, pytest.mark.nightly, pytest.mark.slow]
TRAINING = """
import sys
from pathlib import Path
import pytest
import lib.tables.collection as collections
import test_callback
from audit.card import callback

folder = Path(sys.argv[1])
collections.ROOT = folder
test_callback.patch_fewer(pytest.MonkeyPatch())
trainer = test_callback.trainer_of(folder / "model", folder)
assert trainer.args.world_size == 2
card = callback.ValueCardCallback(trainer, every=2, collection="trial", name="mine")
trainer.add_callback(card)
trainer.train()
print("trained", trainer.args.process_index, len(card.steps))
"""


def test_one_process_of_two_makes_the_cards(tmp_path):
    tiny.make_checkpoint(tmp_path / "model", "linear_llama", attention_dropout=0.2)
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    told = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc_per_node",
            "2",
            script,
            tmp_path,
        ],
        env={
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{ROOT / 'tests/audit'}",
            "PATH": "",
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert told.returncode == 0, told.stderr[-2000:]
    assert "trained 0 3" in told.stdout and "trained 1 0" in told.stdout
    tables = sorted((tmp_path / "data/scores/trial").glob("*.parquet"))
    assert [path.stem[-6:] for path in tables] == ["000000", "000002", "000003"]
    first, last = (
        pd.read_parquet(path)["greatest"] for path in (tables[0], tables[-1])
    )
    assert (first != last).any()
