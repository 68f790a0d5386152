"""Rewards of replies to many prompts with few replies each: prompts are read together, and then their replies."""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm
from transformers import DynamicCache

from ..io import is_of_memory
from ..models import checkpoints
from ..models.hardware import one_thread
from ..models.reward_models import RewardModel
from . import stages
from .stages import Block

FEW = 16  # replies; a prompt with more is read by itself, because its replies then fill batches of one length
COMPARED = 4  # of the longest prompts, whose replies are also scored by themselves, to see that both ways agree


def score(
    model: RewardModel, blocks: Iterable[Block], tokens_per_batch: int | None, bar: tqdm
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yield each block with its rewards, (replies,) float32, those of few replies first. For stages.score."""
    blocks = list(blocks)
    few = [block for block in blocks if len(block.shard) <= FEW and _can_pad(model, block)]
    few.sort(key=lambda block: (len(block.shard) == 1, block.longest), reverse=True)
    most = tokens_per_batch or stages.TOKENS_PER_BATCH.get(torch.device(model.device).type, 4096)
    if few and not _agrees(model, few[:COMPARED]):
        few = []
    for together in _batches(few, most):
        yield from zip(together, _rewards(model, together), strict=True)
        bar.update(sum(len(block.shard) for block in together))
    others = [block for block in blocks if not any(block is each for each in few)]
    yield from stages.one_prompt_after_another(model, others, tokens_per_batch, bar)


def _batches(blocks: list[Block], most: int) -> Iterator[list[Block]]:
    """Yield the blocks in lists of at most that many tokens; prompts with one reply are not mixed with others."""
    together: list[Block] = []
    for block in blocks:
        tokens = sum(len(each.shard) for each in [*together, block]) * max(each.longest for each in [*together, block])
        if together and (tokens > most or (len(block.shard) == 1) != (len(together[0].shard) == 1)):
            yield together
            together = []
        together.append(block)
    if together:
        yield together


def _can_pad(model: RewardModel, block: Block) -> bool:
    """Return whether padding cannot change how these conversations are read."""
    plain = stages.reader_of(model) is stages.Scorer and block.inputs.conversation.gate_position is None
    return plain and (not model.causal or stages.can_share_prefix(model, block.longest))


def _agrees(model: RewardModel, blocks: list[Block]) -> bool:
    """Return whether these blocks get the same rewards together as one by one."""
    try:
        together = np.concatenate(_rewards(model, blocks))
    except (TypeError, ValueError, KeyError, AttributeError):
        return False  # an architecture without such a cache or mask
    alone = np.concatenate([stages.Scorer(model, block.inputs).of_pieces(block.ids()) for block in blocks])
    tolerance = 1e-3 if model.dtype == "float32" else 5e-2  # as in stages: half precision reorders sums
    with np.errstate(invalid="ignore"):  # rewards that are not finite do not agree, and are refused later
        return bool(np.abs(together - alone).max() <= tolerance * np.abs(alone).max())


def _rewards(model: RewardModel, blocks: list[Block]) -> list[np.ndarray]:
    """Return the rewards of each block, (replies,) float32. After running out of memory, halves are read."""
    small = torch.device(model.device).type == "cpu" and model.backbone.num_parameters() < stages.SMALL
    try:
        with torch.inference_mode(), one_thread(small):
            rewards = _read_together(model, blocks).float().cpu().numpy()
    except (RuntimeError, MemoryError) as error:
        if len(blocks) == 1 or not is_of_memory(error):
            with checkpoints.enough_memory("read the replies to one prompt"):
                raise
        middle = len(blocks) // 2
        return _rewards(model, blocks[:middle]) + _rewards(model, blocks[middle:])
    return np.split(rewards, np.cumsum([len(block.shard) for block in blocks])[:-1])


def _read_together(model: RewardModel, blocks: list[Block]) -> Tensor:
    """Return the rewards of all replies of the blocks, (replies,)."""
    prompts = [block.inputs.prefix_ids for block in blocks]
    replies = [block.inputs.suffixes[i] for block in blocks for i in block.shard]
    owner = np.repeat(np.arange(len(blocks)), [len(block.shard) for block in blocks])  # (replies,)
    whole = [prompts[number] + reply for number, reply in zip(owner, replies, strict=True)]
    if not model.causal:
        ids, mask = _padded(model, whole)
        given = {"input_ids": ids, "attention_mask": mask}
        if getattr(model.backbone.config, "type_vocab_size", 0) > 1:
            starts = [len(blocks[number].inputs.conversation.prefix_ids) for number in owner]
            positions = torch.arange(ids.shape[1], device=ids.device)
            given["token_type_ids"] = (positions >= torch.tensor(starts, device=ids.device)[:, None]).long() * mask
        return model.backbone(**given).logits[:, 0]
    pad = model.pad_token_id if model.read_at == "last_not_pad" else None
    read = [max((i for i, token in enumerate(ids) if token != pad), default=0) for ids in whole]
    read_at = torch.tensor(read, device=model.device)  # (replies,)
    lengths = torch.tensor([len(prompts[number]) for number in owner], device=model.device)
    if len(replies) == len(blocks) or bool((read_at < lengths).any()) or not min(map(len, prompts)):
        ids, mask = _padded(model, whole)
        states = model.backbone(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    else:
        states, read_at = _after_prompts(model, prompts, replies, owner), read_at - lengths
    assert model.head is not None
    return model.head(states[torch.arange(len(replies), device=states.device), read_at].float(), None)


def _after_prompts(model: RewardModel, prompts: list, replies: list, owner: np.ndarray) -> Tensor:
    """Return the output at every position of replies, (replies, longest, d); each follows the prompt of its owner."""
    ids, mask = _padded(model, prompts, in_front=True)
    cache = DynamicCache()  # without the config, so that sliding-window layers keep every key
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    model.backbone(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True)
    rows = torch.tensor(owner, device=model.device)
    cache.batch_select_indices(rows)
    after, of_reply = _padded(model, replies)
    positions = mask.sum(1)[rows, None] + torch.arange(after.shape[1], device=model.device)
    mask = torch.cat([mask[rows], of_reply], dim=1)
    out = model.backbone(input_ids=after, attention_mask=mask, position_ids=positions, past_key_values=cache)
    return out.last_hidden_state


def _padded(model: RewardModel, rows: list, in_front: bool = False) -> tuple[Tensor, Tensor]:
    """Return ids and their attention mask, (rows, longest) each, padded behind or in front."""
    side = "left" if in_front else "right"
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_side=side)
    mask = pad_sequence([torch.ones(len(row), dtype=torch.long) for row in rows], batch_first=True, padding_side=side)
    return ids.to(model.device), mask.to(model.device)
