"""Every planted cause is named, and no unknown one is."""

import planted_causes
import pytest

from audit.check import why


@pytest.mark.nightly
@pytest.mark.parametrize("which", planted_causes.EVERY)
def test_what_was_planted_is_named_and_what_is_unknown_is_not(which, tmp_path):
    folder, label = planted_causes.plant(which, tmp_path / "rewards.csv")
    rows = why.read_rewards(tmp_path / "rewards.csv")
    line = why.explain(str(folder), rows, label=label, device="cpu").line
    assert planted_causes.is_named(which, line), line
