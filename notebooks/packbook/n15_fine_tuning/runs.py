"""What notebook 15 computes: lengths of chats, what a token weighs in an update, and a small model to train."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import ArrayLike
from transformers import LlamaConfig, LlamaForCausalLM

from packlib.batches import IGNORED, pack_lengths
from packlib.lengths import data_path
from packlib.packing import Packs, StreamPacker

TURNS = (("user", 4), ("assistant", 3), ("user", 2), ("assistant", 3))  # of one chat, in tokens
WAYS = ("token", "sequence", "group", "constant", "micro-batch")  # ways to add up a loss: what is averaged over

# six answers: the tokens of each that are predicted, the prompt that it answers, and its micro-batch
LENGTHS, GROUPS, PARTS = (12, 3, 4, 2, 9, 6), (0, 0, 1, 1, 2, 2), (0, 1, 1, 1, 0, 0)
CONSTANT = 6 * 12  # as if each answer were as long as the longest


def token_weights(way: str, lengths: ArrayLike, groups: ArrayLike, parts: ArrayLike, constant: float) -> np.ndarray:
    """Return the weight of one token of each answer in the update; shape (answers,).

    Args:
        way: one of `WAYS`.
        lengths: predicted tokens of each answer.
        groups: the prompt of each answer, numbered from 0.
        parts: the micro-batch of each answer, numbered from 0.
        constant: that the sum is divided by, for the way "constant".
    """
    tokens = np.asarray(lengths)
    if way == "token":
        return np.full(len(tokens), 1 / tokens.sum())
    if way == "constant":
        return np.full(len(tokens), 1 / constant)
    if way == "sequence":
        return 1 / (len(tokens) * tokens)
    # a mean of the means of groups, or of micro-batches
    unit_of_answer = np.asarray(groups if way == "group" else parts)
    num_units = len(np.unique(unit_of_answer))
    tokens_of_unit = np.bincount(unit_of_answer, tokens)
    return 1 / (num_units * tokens_of_unit[unit_of_answer])


@dataclass(frozen=True)
class Chats:
    """Hold the lengths of n chats.

    Attributes:
        read: tokens of the prompt, shape (n,).
        predicted: tokens of the answer, shape (n,).
        groups: number of the prompt, the same for answers to one prompt, shape (n,).
    """

    read: np.ndarray
    predicted: np.ndarray
    groups: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Return the tokens of each chat, shape (n,)."""
        return self.read + self.predicted

    @property
    def share(self) -> float:
        """Return the share of all tokens that are predicted."""
        return float(self.predicted.sum() / self.lengths.sum())


def real_chats(max_length: int) -> Chats:
    """Load the lengths of 500 requests to a chat service; a prompt has all earlier turns of its chat."""
    read, predicted = np.loadtxt(data_path("lengths", "chats.csv"), int, delimiter=",", skiprows=1).T
    return _cut(read, predicted, np.arange(len(read)), max_length)


def reconstructed_rollouts(prompts: int, answers: int, max_length: int, seed: int) -> Chats:
    """Draw lengths of several answers to each prompt, which are log-normal; every prompt has 100 tokens.

    Three in four answers have fewer than 8,000 tokens, and one in eight more than 16,000, as Open R1 published of the
    answers of DeepSeek-R1. These two figures determine the distribution.
    """
    three_in_four, seven_in_eight = map(NormalDist().inv_cdf, (3 / 4, 7 / 8))  # quantiles
    spread = np.log(16_000 / 8_000) / (seven_in_eight - three_in_four)  # standard deviation of the logarithm
    normal = np.random.default_rng([seed, 2]).standard_normal(prompts * answers)
    predicted = np.rint(8_000 * np.exp(spread * (normal - three_in_four))).astype(int)
    groups = np.repeat(np.arange(prompts), answers)
    return _cut(np.full(len(groups), 100), np.maximum(1, predicted), groups, max_length)


def _cut(read: np.ndarray, predicted: np.ndarray, groups: np.ndarray, max_length: int) -> Chats:
    """Return the chats with prompts cut to half of a row, and answers cut where the row ends, as by a token limit."""
    read = np.minimum(read, max_length // 2)
    return Chats(read, np.minimum(predicted, max_length - read), groups)


def predicted_in_packs(chats: Chats, max_length: int, seed: int) -> tuple[Packs, np.ndarray]:
    """Return packs of the chats, and the share of predicted tokens of each pack, sorted; shape (packs,)."""
    packs = pack_lengths(chats.lengths, max_length, "lpfhp", seed=seed)
    return packs, np.sort([chats.predicted[ids].sum() / chats.lengths[ids].sum() for ids in packs])


def regrouped(chats: Chats, max_length: int, ranks: int, deals: int, seed: int) -> dict[str, tuple[float, float]]:
    """Measure how much the weight of an answer depends on the packs that it is in.

    The same answers are dealt several times. Each deal packs them in another order, makes each pack a micro-batch, and
    gives the packs to the ranks in turn.

    Returns:
        By way, the largest ratio between the largest and the least weight of one answer over all deals: with one count
        for the whole update, and if each rank counts for itself and ranks are averaged.
    """
    counted_once: dict[str, list[np.ndarray]] = {way: [] for way in WAYS}  # weights of the answers, for each deal
    counted_by_rank: dict[str, list[np.ndarray]] = {way: [] for way in WAYS}
    rng = np.random.default_rng([seed, 4])
    num_answers = len(chats.lengths)
    for _ in range(deals):
        order = rng.permutation(num_answers)
        parts = np.empty(num_answers, int)  # the pack of each answer
        for number, pack in enumerate(StreamPacker(max_length).pack(chats.lengths[order])):
            parts[order[list(pack)]] = number
        rank = parts % ranks  # of each answer
        for way in WAYS:
            counted_once[way].append(token_weights(way, chats.predicted, chats.groups, parts, max_length))
            weights = np.empty(num_answers)
            for number in np.unique(rank):
                on_rank = rank == number
                predicted, groups = chats.predicted[on_rank], chats.groups[on_rank]
                weights[on_rank] = token_weights(way, predicted, groups, parts[on_rank], max_length) / ranks
            counted_by_rank[way].append(weights)
    return {way: (_largest_ratio(counted_once[way]), _largest_ratio(counted_by_rank[way])) for way in WAYS}


def _largest_ratio(weights_by_deal: list[np.ndarray]) -> float:
    """Return the largest ratio, over answers, between the largest and the least weight of one answer over deals."""
    return float((np.max(weights_by_deal, 0) / np.min(weights_by_deal, 0)).max())


def survivor(moved: Mapping[str, tuple[float, float]]) -> str:
    """Find, of the first four ways, the one whose weights change least if each rank counts for itself.

    A constant never changes. Other ways do not either if ranks happen to get equal numbers; the constant is preferred.

    Args:
        moved: what `regrouped` returns.
    """

    def preference(way: str) -> tuple[bool, bool, float]:
        _, ratio_by_rank = moved[way]
        changes = ratio_by_rank > 1.001
        return changes, way != "constant", ratio_by_rank

    return min(WAYS[:4], key=preference)


def tiny_llama(seed: int) -> LlamaForCausalLM:
    """Return a small Llama as transformers makes it, with random weights, in float64."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
    config = LlamaConfig(**sizes, **heads, use_cache=False, initializer_range=0.2)
    return LlamaForCausalLM(config).double().eval()


def random_chats(seed: int) -> list[dict[str, list[int]]]:
    """Return six chats of random tokens with the lengths of the six answers; the label of a prompt's token is -100."""
    rng, chats = np.random.default_rng(seed), []
    for group, length in zip(GROUPS, LENGTHS, strict=True):
        prompt_length = 5 + group  # any, but the same for answers to one prompt
        ids = rng.integers(3, 256, prompt_length + length).tolist()
        chats.append({"input_ids": ids, "labels": [IGNORED] * prompt_length + ids[prompt_length:]})
    return chats


def raises(step: Callable, model: LlamaForCausalLM, batches: Sequence[dict]) -> bool:
    """Return whether a training step raises an error; the model is left without gradients."""
    try:
        step(model, batches)
    except (RuntimeError, ValueError, IndexError, KeyError, TypeError):
        return True
    finally:
        model.zero_grad()
    return False
