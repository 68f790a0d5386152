"""Where the weights of a decoder go: whole onto the device, over all cards, or nowhere, if they are
read layer by layer.
"""

from ....models import layers
from ....models.checkpoints import load_backbone
from ....models.heads import Head
from ....models.reward_models import (
    Checkpoint,
    Options,
    RewardModel,
    complete,
)
from ....scoring.by_layer import LayerByLayer


def load(checkpoint: Checkpoint, head: Head, options: Options) -> RewardModel:
    """Return the reward model of a decoder's checkpoint. InputError as for open_model."""
    free = {} if options.stream else layers.free_on_cards(checkpoint.device)
    layout = layers.layout(checkpoint, free)
    if not layout and layers.are_wanted(options.stream, checkpoint):
        skeleton, in_files = layers.open_layers(checkpoint)
        return complete(
            checkpoint, skeleton, head, layers=in_files, reader=LayerByLayer
        )
    backbone = load_backbone(checkpoint, layout)
    checkpoint.files.refuse_changed()
    return complete(checkpoint, backbone, head)
