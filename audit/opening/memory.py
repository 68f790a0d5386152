"""Where the weights of a decoder go: whole onto the device, over all cards, or nowhere, if they are
read layer by layer.
"""

from ..paper import RewardModel, checkpoints, heads, reward_models
from ..reading import by_layer, layers


def load(
    checkpoint: reward_models.Checkpoint,
    head: heads.Head,
    options: reward_models.Options,
) -> RewardModel:
    """Return the reward model of a decoder's checkpoint. InputError as for open_model."""
    free = {} if options.stream else layers.free_on_cards(checkpoint.device)
    layout = layers.layout(checkpoint, free)
    if not layout and layers.are_wanted(options.stream, checkpoint):
        skeleton, in_files = layers.open_layers(checkpoint)
        return reward_models.complete(
            checkpoint, skeleton, head, layers=in_files, reader=by_layer.LayerByLayer
        )
    backbone = checkpoints.load_backbone(checkpoint, layout)
    checkpoint.files.refuse_changed()
    return reward_models.complete(checkpoint, backbone, head)
