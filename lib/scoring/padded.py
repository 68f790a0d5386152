"""Rewards of replies to many prompts with few replies each: prompts are read together, and then
their replies.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm
from transformers import DynamicCache

from ..io import is_of_memory
from ..models import checkpoints
from ..models.conversations import Ids
from ..models.hardware import one_thread, release
from ..models.reward_models import RewardModel
from . import agreement, stages
from .encoders import WholeConversations, rewards_of_padded
from .stages import Block

# replies; a prompt with more is read by itself, because its replies then fill batches of one length
FEW = 16
# replies to the longest prompts, which are also read without padding, to see that both ways agree
COMPARED = 16
# of a reply, read together without padding, to see how much rounding changes its reward
COPIES = 4


def score(
    model: RewardModel,
    blocks: Iterable[Block],
    tokens_per_batch: int | None,
    bar: tqdm,
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yield each block with its rewards, (replies,) float32, those of few replies first. For
    stages.score.
    """
    blocks = list(blocks)
    reader = stages.reader_of(model)
    device = torch.device(model.device).type
    most = tokens_per_batch or stages.TOKENS_PER_BATCH.get(device, 4096)
    few = [
        each
        for each in blocks
        if len(each.shard) <= FEW and reader.can_pad(model, each)
    ]
    reason = ""
    if few and reader.computes_here:  # to a server they go without their padding
        reason = _disagreement(model, _longest(few), most)
    if reason:
        tqdm.write(
            f"{model.nickname}: {len(few)} prompts are read one by one, which is exact but slower: "
            f"{reason}",
            file=sys.stderr,
        )
        few = []
    for together in _batches(few, most):
        yield from zip(together, _rewards(model, together, most), strict=True)
        bar.update(sum(len(block.shard) for block in together))
    done = set(map(id, few))
    others = [block for block in blocks if id(block) not in done]
    yield from reader.each_block(model, others, tokens_per_batch, bar)


def _batches(blocks: list[Block], most: int) -> Iterator[list[Block]]:
    """Yield the blocks in lists whose prompts have at most that many tokens together.

    Prompts with one reply are read with it, and not mixed with others.
    """
    single = [block for block in blocks if len(block.shard) == 1]
    several = [block for block in blocks if len(block.shard) > 1]
    yield from _of_few_tokens(single, lambda block: block.longest, most)
    yield from _of_few_tokens(several, lambda block: len(block.inputs.prefix_ids), most)


def _of_few_tokens(
    blocks: list[Block],
    length: Callable[[Block], int],
    most: int,
) -> Iterator[list[Block]]:
    """Yield the blocks, longest first, in lists of at most that many tokens with their padding."""
    ordered = sorted(blocks, key=length, reverse=True)
    while ordered:
        longest = max(1, length(ordered[0]))
        count = max(1, most // longest)
        yield ordered[:count]
        ordered = ordered[count:]


def _longest(blocks: list[Block]) -> list[Block]:
    """Return the longest blocks, with COMPARED replies or more together if there are as many."""
    ordered = sorted(blocks, key=lambda block: -block.longest)
    replies = np.cumsum([len(block.shard) for block in ordered])
    return ordered[: int(np.searchsorted(replies, COMPARED)) + 1]


def _disagreement(model: RewardModel, blocks: list[Block], most: int) -> str:
    """Return how the rewards of these blocks differ from those of replies read one by one; "" if
    they agree.

    In half precision, rewards of single replies are also compared with themselves. See agreement.
    """
    single = [
        stages.Block(each.inputs, [np.array([number])])
        for each in blocks
        for number in each.shard
    ]
    try:
        together = np.concatenate(_rewards(model, blocks, most))
        one_by_one = [_rewards(model, [block], most)[0] for block in single]
        alone = np.concatenate(one_by_one)
    except agreement.CANNOT_SHARE as error:
        if is_of_memory(error):
            raise
        return agreement.of_architecture(model, error)
    # rewards that are not finite do not agree, and are refused later
    with np.errstate(invalid="ignore"):
        if model.dtype == "float32":
            largest = np.abs(together - alone).max()
            if largest <= agreement.STRICT * np.abs(alone).max():
                return ""
            return f"padding changes rewards by up to {largest:.2g}"
        # (replies, COPIES)
        copies = np.stack([_read_alone(model, block, COPIES) for block in single])
        with agreement.rounded_once_more(model.backbone):
            # (replies, 1)
            rounded = np.stack([_read_alone(model, block, 1) for block in single])
        column = alone[:, None]  # (replies, 1)
        noise = max(_rms(copies - column), _rms(rounded - column))
        difference = _rms(together - alone)
        spread = alone.std() or 1
    if difference <= agreement.FACTOR * noise:
        return ""
    return (
        f"padding changes rewards by {difference / spread:.2g} of their spread, where rounding "
        f"explains {noise / spread:.2g}"
    )


def _rms(differences: np.ndarray) -> float:
    return float(np.sqrt(np.square(differences).mean()))


def _read_alone(model: RewardModel, block: Block, copies: int) -> np.ndarray:
    """Return the rewards of so many copies of a block's only reply, read together without
    padding, (copies,).
    """
    most = stages.TOKENS_PER_BATCH["cuda"]
    return np.concatenate(_rewards(model, [block] * copies, most))


def _rewards(model: RewardModel, blocks: list[Block], most: int) -> list[np.ndarray]:
    """Return the rewards of each block, (replies,) float32. After running out of memory, halves
    are read.
    """
    counts = [len(block.shard) for block in blocks]
    try:
        with torch.inference_mode(), one_thread(stages.is_small(model)):
            rewards = _read_together(model, blocks, most).float()
        ends = np.cumsum(counts)[:-1]
        return np.split(rewards.cpu().numpy(), ends)
    except (RuntimeError, MemoryError) as error:
        if len(blocks) == 1 or not is_of_memory(error):
            with checkpoints.enough_memory("read the replies to one prompt"):
                raise
    # Out of the except clause, whose traceback holds the tensors of the batch that was too large
    release()
    middle = len(blocks) // 2
    first = _rewards(model, blocks[:middle], most // 2)
    return first + _rewards(model, blocks[middle:], most // 2)


def _read_together(model: RewardModel, blocks: list[Block], most: int) -> Tensor:
    """Return the rewards of all replies of the blocks, (replies,)."""
    prompts = [block.inputs.prefix_ids for block in blocks]
    replies = [block.inputs.suffixes[i] for block in blocks for i in block.shard]
    # the prompt of each, (replies,)
    counts = [len(block.shard) for block in blocks]
    owner = np.repeat(np.arange(len(blocks)), counts)
    lengths = np.array(list(map(len, prompts)))[owner]
    whole = [prompts[owner[i]] + reply for i, reply in enumerate(replies)]
    if issubclass(stages.reader_of(model), WholeConversations):
        before = [blocks[number].inputs.conversation.prefix_ids for number in owner]
        return rewards_of_padded(model, *_padded(model, whole), before)
    read_at = _positions_read(model, whole)
    in_replies = read_at - lengths  # negative where a reward is read in the prompt
    after_prompts = lengths.min() > 0 and in_replies.min() >= 0
    if len(replies) > len(blocks) and after_prompts:
        states = _after_prompts(model, prompts, replies, owner, in_replies, most)
    else:
        ids, mask = _padded(model, whole)
        out = model.backbone(input_ids=ids, attention_mask=mask, use_cache=False)
        states = _at(out.last_hidden_state, read_at)
    assert model.head is not None  # as every decoder's
    return model.head(states.float(), None)


def _positions_read(model: RewardModel, whole: list[Ids]) -> np.ndarray:
    """Return at which token of each conversation its reward is read, (replies,)."""
    if model.read_at != "last_not_pad":
        return np.array([len(ids) - 1 for ids in whole])
    last = []
    for ids in whole:
        kept = [i for i, token in enumerate(ids) if token != model.pad_token_id]
        last.append(kept[-1] if kept else 0)
    return np.array(last)


def _at(states: Tensor, positions: np.ndarray) -> Tensor:
    """Return each row's state at its position, (rows, d). The states are (rows, longest, d)."""
    rows = torch.arange(len(states), device=states.device)
    columns = torch.from_numpy(positions).to(states.device)
    return states[rows, columns]


def _after_prompts(
    model: RewardModel,
    prompts: list[Ids],
    replies: list[Ids],
    owner: np.ndarray,
    read_at: np.ndarray,
    most: int,
) -> Tensor:
    """Return the output at token `read_at` of each reply after the prompt of its owner,
    (replies, d).
    """
    cache, mask = _read_prompts(model, prompts)
    lengths = np.array(list(map(len, replies)))
    order = np.argsort(-lengths, kind="stable")  # longest first
    states: list[Tensor] = []
    start = 0
    while start < len(order):
        count = max(1, most // lengths[order[start]])
        some = order[start : start + count]
        start += count
        rows = torch.from_numpy(owner[some]).to(model.device)
        ids, of_reply = _padded(model, [replies[i] for i in some])
        steps = torch.arange(ids.shape[1], device=model.device)
        out = model.backbone(
            input_ids=ids,
            attention_mask=torch.cat([mask[rows], of_reply], dim=1),
            position_ids=mask[rows].sum(1, keepdim=True) + steps,
            past_key_values=_copied(cache, rows),
        )
        states.append(_at(out.last_hidden_state, read_at[some]))
    back = torch.from_numpy(np.argsort(order)).to(model.device)
    return torch.cat(states)[back]


def _read_prompts(
    model: RewardModel,
    prompts: list[Ids],
) -> tuple[DynamicCache, Tensor]:
    """Return the keys and values of prompts padded in front, and their mask, (prompts, longest)."""
    ids, mask = _padded(model, prompts, in_front=True)
    # without the config, so that sliding-window layers keep every key
    cache = DynamicCache()
    positions = mask.cumsum(1) - 1
    model.backbone(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions.clamp(min=0),
        past_key_values=cache,
        use_cache=True,
    )
    return cache, mask


def _copied(cache: DynamicCache, rows: Tensor) -> DynamicCache:
    """Return the keys and values of these prompts: of each layer (rows, kv_heads, prompt, d)."""
    copied = DynamicCache()
    for number, layer in enumerate(cache.layers):
        copied.update(layer.keys[rows], layer.values[rows], number)
    return copied


def _padded(
    model: RewardModel,
    rows: list[Ids],
    in_front: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return ids and their attention mask, (rows, longest) each, padded behind or in front."""
    seen = [[1] * len(row) for row in rows]
    ids = pad_rows(rows, model.device, in_front)
    mask = pad_rows(seen, model.device, in_front)
    return ids, mask


def pad_rows(
    rows: Sequence[Sequence[int]],
    device: str,
    in_front: bool = False,
) -> Tensor:
    """Return rows of one length on the device, (rows, longest), with 0 behind or in front."""
    side = "left" if in_front else "right"
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_side=side).to(device)
