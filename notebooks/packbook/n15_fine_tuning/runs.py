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
WAYS = ("token", "sequence", "group", "constant", "micro-batch")  # to add up a loss

# six answers: the tokens of each that are predicted, the prompt that it answers, and its micro-batch
LENGTHS, GROUPS, PARTS = (12, 3, 4, 2, 9, 6), (0, 0, 1, 1, 2, 2), (0, 1, 1, 1, 0, 0)
CONSTANT = 6 * 12  # as if each answer were as long as the longest


def token_weights(way: str, lengths: ArrayLike, groups: ArrayLike, parts: ArrayLike, constant: float) -> np.ndarray:
    """Return the weight of one token of each answer in the update; groups and micro-batches are numbered from 0."""
    tokens = np.asarray(lengths)
    if way in ("token", "constant"):
        return np.full(len(tokens), 1 / (tokens.sum() if way == "token" else constant))
    if way == "sequence":
        return 1 / (len(tokens) * tokens)
    belongs = np.asarray(groups if way == "group" else parts)  # a mean of the means of groups, or of micro-batches
    return 1 / (len(np.unique(belongs)) * np.bincount(belongs, tokens)[belongs])


@dataclass(frozen=True)
class Chats:
    """Lengths of chats: tokens that are read, those that are predicted, and which chats share a prompt; shape (n,)."""

    read: np.ndarray
    predicted: np.ndarray
    groups: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return self.read + self.predicted

    @property
    def share(self) -> float:
        """Of all tokens, those that are predicted."""
        return float(self.predicted.sum() / self.lengths.sum())


def real_chats(max_length: int) -> Chats:
    """Load 500 requests to a chat service: the prompt, with all that was said before, is read, the answer predicted."""
    read, predicted = np.loadtxt(data_path("lengths", "chats.csv"), int, delimiter=",", skiprows=1).T
    return _cut(read, predicted, np.arange(len(read)), max_length)


def reconstructed_rollouts(prompts: int, answers: int, max_length: int, seed: int) -> Chats:
    """Draw several answers to each prompt: log-normal, three in four below 8,000 tokens, one in eight above 16,000.

    These are the two figures that Open R1 published of the answers of DeepSeek-R1. Every prompt has 100 tokens.
    """
    three_in_four, seven_in_eight = map(NormalDist().inv_cdf, (3 / 4, 7 / 8))
    spread = np.log(16_000 / 8_000) / (seven_in_eight - three_in_four)
    drawn = np.random.default_rng([seed, 2]).standard_normal(prompts * answers)
    predicted = np.rint(8_000 * np.exp(spread * (drawn - three_in_four))).astype(int)
    groups = np.repeat(np.arange(prompts), answers)
    return _cut(np.full(len(groups), 100), np.maximum(1, predicted), groups, max_length)


def _cut(read: np.ndarray, predicted: np.ndarray, groups: np.ndarray, max_length: int) -> Chats:
    """Cut a prompt to half of a row, and an answer where the row ends, as a limit on generation has it."""
    read = np.minimum(read, max_length // 2)
    return Chats(read, np.minimum(predicted, max_length - read), groups)


def predicted_in_packs(chats: Chats, max_length: int, seed: int) -> tuple[Packs, np.ndarray]:
    """Return packs of the chats, and which share of the tokens of each is predicted, from the least to the largest."""
    packs = pack_lengths(chats.lengths, max_length, "lpfhp", seed=seed)
    return packs, np.sort([chats.predicted[ids].sum() / chats.lengths[ids].sum() for ids in packs])


def regrouped(chats: Chats, max_length: int, ranks: int, deals: int, seed: int) -> dict[str, tuple[float, float]]:
    """Return, by way, how many times its least weight an answer weighs at most, over `deals` of the same answers.

    Each deal packs the answers in another order, makes each pack a micro-batch, and gives the packs to the ranks in
    turn. The first number is for one count of the whole update; for the second each rank counts for itself, and ranks
    are averaged.
    """
    weights: dict[str, list[list[np.ndarray]]] = {way: [[], []] for way in WAYS}
    rng = np.random.default_rng([seed, 4])
    for _ in range(deals):
        order, parts = rng.permutation(len(chats.lengths)), np.empty(len(chats.lengths), int)
        for number, ids in enumerate(StreamPacker(max_length).pack(chats.lengths[order])):
            parts[order[list(ids)]] = number
        rank = parts % ranks
        for way, (whole, own) in weights.items():
            whole.append(token_weights(way, chats.predicted, chats.groups, parts, max_length))
            own.append(np.empty(len(parts)))
            for on_rank in (rank == number for number in np.unique(rank)):
                some = chats.predicted[on_rank], chats.groups[on_rank], parts[on_rank]
                own[-1][on_rank] = token_weights(way, *some, max_length) / ranks
    most = {
        way: [float((np.max(values, 0) / np.min(values, 0)).max()) for values in pair] for way, pair in weights.items()
    }
    return {way: (whole, own) for way, (whole, own) in most.items()}


def survivor(moved: Mapping[str, tuple[float, float]]) -> str:
    """Find, of the first four ways, the one whose weights move least if each rank counts for itself.

    Ranks may happen to be dealt equal numbers, and then other ways are steady as well; a constant is always.
    """
    return min(WAYS[:4], key=lambda way: (moved[way][1] > 1.001, way != "constant", moved[way][1]))


def tiny_llama(seed: int) -> LlamaForCausalLM:
    """Return a Llama as transformers makes it, small and with random weights, in float64."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
    config = LlamaConfig(**sizes, **heads, use_cache=False, initializer_range=0.2)
    return LlamaForCausalLM(config).double().eval()


def random_chats(seed: int) -> list[dict[str, list[int]]]:
    """Return six chats of random tokens with the lengths of the six answers; the label of a prompt's token is -100."""
    rng, chats = np.random.default_rng(seed), []
    for group, length in zip(GROUPS, LENGTHS, strict=True):
        ids = rng.integers(3, 256, 5 + group + length).tolist()
        chats.append({"input_ids": ids, "labels": [IGNORED] * (5 + group) + ids[5 + group :]})
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
