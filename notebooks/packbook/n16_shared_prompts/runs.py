"""What notebook 16 computes: groups that are drawn, their rows in three ways, and a small model on a row of one."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from packlib.packing import GroupRows, pack_groups, plan
from packlib.tools.rows import SharedPromptBatch, SharedPromptCollator, lay_groups

PROMPT = "what is two plus two".split()
ANSWERS = ("four", "that is four", "twenty two")
SPREAD = 0.6  # of the logarithm of lengths


def words_of_row() -> tuple[list[str], dict[str, list[int]]]:
    """The words of the row that holds the small group, and its columns, as `lay_groups` makes them."""
    answers = [answer.split() for answer in ANSWERS]
    words = [*PROMPT, *(word for answer in answers for word in answer)]
    vocabulary = {word: at for at, word in enumerate(dict.fromkeys(words))}
    rows = pack_groups([len(PROMPT)], [[*map(len, answers)]], 64)
    tokens = [[[vocabulary[word] for word in answer] for answer in answers]]
    (row,) = lay_groups(rows, [[vocabulary[word] for word in PROMPT]], tokens)
    names = list(vocabulary)
    return [names[token] for token in row["input_ids"]], row


def drawn(
    prompt: float, answer: float, answers: int, max_length: int, groups: int, seed: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Log-normal lengths of prompts and of the answers to each; medians are given.

    A prompt takes three quarters of a row at most, and an answer what its prompt leaves.
    """
    rng = np.random.default_rng(seed)
    prompts = rng.lognormal(np.log(prompt), SPREAD, groups).clip(1, 3 * max_length // 4).astype(int)
    lengths = [rng.lognormal(np.log(answer), SPREAD, answers).clip(1, max_length - one).astype(int) for one in prompts]
    return prompts, lengths


def times_fewer(prompt: float, answer: float, answers: int) -> float:
    """Tokens of answers with a prompt each, divided by those of a group that holds the prompt once."""
    return answers * (prompt + answer) / (prompt - 1 + answers * (answer + 1))


def rows_in_three_ways(prompts: np.ndarray, answers: Sequence[np.ndarray], max_length: int) -> tuple[dict, GroupRows]:
    """The number of rows by way: a prompt for each answer, whole groups, and groups that may be split; and the last."""
    alone = np.concatenate([prompt + own for prompt, own in zip(prompts, answers, strict=True)])
    pieces = []  # whole groups; one that is longer than a row is cut by best fit, with the prompt in each piece
    for prompt, own in zip(prompts.tolist(), answers, strict=True):
        room = max_length - (prompt - 1)
        pieces += (prompt - 1 + plan(own + 1, room, "lpfhp").assign(own + 1).lengths_used).tolist()
    rows = pack_groups(prompts, answers, max_length)
    counted = {
        "a prompt for each answer": plan(alone, max_length, "lpfhp").num_packs,
        "whole groups": plan(pieces, max_length, "lpfhp").num_packs,
        "split where it pays": len(rows),
    }
    return counted, rows


def small_model(seed: int) -> nn.Module:
    """A decoder of transformers with random weights, in double precision."""
    from transformers import GPT2Config, GPT2LMHeadModel  # it computes nothing in float32 but its own loss

    torch.manual_seed(seed)
    sizes = {"vocab_size": 64, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).double().eval()
    model.loss_type = "ForCausalLM"  # its default, of which it would warn
    return model


def small_group(seed: int) -> tuple[list[int], list[list[int]]]:
    """Random tokens in place of the words: a prompt and its answers."""
    rng = np.random.default_rng(seed)
    prompt, *answers = (rng.integers(1, 64, n).tolist() for n in (len(PROMPT), *(len(a.split()) for a in ANSWERS)))
    return prompt, answers


def as_one_row(model: nn.Module, prompt: list[int], answers: list[list[int]]) -> SharedPromptBatch:
    """The batch of one row that holds the group."""
    rows = pack_groups([len(prompt)], [[*map(len, answers)]], 64)
    return SharedPromptCollator(model)(list(lay_groups(rows, [prompt], [answers])))


def alone(model: nn.Module, prompt: list[int], answers: list[list[int]]) -> Tensor:
    """The losses of the answers' tokens, each answer behind a prompt of its own; shape (tokens,)."""
    found = []
    for answer in answers:
        ids = torch.tensor([prompt + answer])
        scores = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
        found.append(nn.functional.cross_entropy(scores, ids[0, len(prompt) :], reduction="none"))
    return torch.cat(found)


def in_a_row(model: nn.Module, batch: SharedPromptBatch, **changes: Tensor) -> Tensor:
    """The losses of the answers' tokens in the shared row, with other inputs if some are given; shape (tokens,)."""
    logits = model(**batch.inputs | changes).logits
    return batch.losses(logits)[batch.loss_weights > 0]


def gradients(model: nn.Module, loss: Tensor) -> Tensor:
    """All gradients of a loss, end to end."""
    return torch.cat([found.flatten() for found in torch.autograd.grad(loss, [*model.parameters()])])
