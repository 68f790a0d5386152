"""How a reward model is to be read, beyond what plain checkpoints need."""

from dataclasses import dataclass
from pathlib import Path

from ..paper import reward_models


@dataclass(frozen=True)
class Options(reward_models.Options):
    """The options of lib.load, and these:

    - head: also "yes,no" reads a judge: the logit of the token "yes" as the next one, less that of
      "no"; one token alone is its logit.
    - label: which output of a classifier is the reward, from 0. None if it has one output.
    - base: of an adapter, the folder or hub id of its base. None takes what its configuration
      names.
    - tokenizer: of a served model, the folder with its tokenizer and template. None takes what the
      server names.
    - stream: True leaves the weights in their files and reads them layer by layer, once for all
      replies that are scored together. None does so if they do not fit into memory.
    """

    label: int | None = None
    stream: bool | None = None
    tokenizer: str | Path | None = None
    base: str | Path | None = None
