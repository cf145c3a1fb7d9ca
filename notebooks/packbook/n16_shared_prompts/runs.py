"""What notebook 16 computes: groups that are drawn, their rows in three ways, and a small model on a row of one."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from packlib.batches import IGNORED
from packlib.packing import TreeRows, group_trees, pack_tree_lengths, pack_trees, plan
from packlib.tools.rows import TreeBatch, TreeCollator, lay_trees

PROMPT = "what is two plus two".split()
ANSWERS = ("four", "that is four", "twenty two")
SPREAD = 0.6  # of the logarithm of lengths


def one_row(prompt: list[int], answers: list[list[int]]) -> dict[str, list[int]]:
    """The columns of the row that holds a group, as `lay_trees` makes them; the prompt has no labels."""
    sequences = [prompt + answer for answer in answers]
    labels = [[IGNORED] * len(prompt) + answer for answer in answers]
    rows = pack_trees(sequences, [0] * len(answers), 1024, tries=0)
    (row,) = lay_trees(rows, sequences, labels)
    return row


def branches(columns: Mapping[str, Sequence[int]]) -> list[int]:
    """Of each slot the number of its answer, -1 for shared tokens."""
    until, last = columns["seen_until"], columns["last_slots"]
    seen_by = [[at for at, end in enumerate(last) if slot <= end < until[slot]] for slot in range(len(until))]
    return [-1 if len(answers) > 1 else answers[0] for answers in seen_by]


def words_of_row() -> tuple[list[str], dict[str, list[int]]]:
    """The words of the row that holds the small group, and its columns, as `lay_trees` makes them."""
    answers = [answer.split() for answer in ANSWERS]
    words = [*PROMPT, *(word for answer in answers for word in answer)]
    vocabulary = {word: at for at, word in enumerate(dict.fromkeys(words))}
    row = one_row([vocabulary[word] for word in PROMPT], [[vocabulary[word] for word in own] for own in answers])
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


def rows_in_three_ways(prompts: np.ndarray, answers: Sequence[np.ndarray], max_length: int) -> tuple[dict, TreeRows]:
    """The number of rows by way: a prompt for each answer, whole groups, and groups that may be split; and the last."""
    alone = np.concatenate([prompt + own for prompt, own in zip(prompts, answers, strict=True)])
    pieces = []  # whole groups; one that is longer than a row is cut by best fit, with the prompt in each piece
    for prompt, own in zip(prompts.tolist(), answers, strict=True):
        room = max_length - (prompt - 1)
        pieces += (prompt - 1 + plan(own + 1, room, "lpfhp").assign(own + 1).lengths_used).tolist()
    rows = pack_tree_lengths(group_trees(prompts, answers), max_length)
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


def as_one_row(model: nn.Module, prompt: list[int], answers: list[list[int]]) -> TreeBatch:
    """The batch of one row that holds the group."""
    return TreeCollator(model)([one_row(prompt, answers)])


def alone(model: nn.Module, prompt: list[int], answers: list[list[int]]) -> Tensor:
    """The losses of the answers' tokens, each answer behind a prompt of its own; shape (tokens,)."""
    found = []
    for answer in answers:
        ids = torch.tensor([prompt + answer])
        scores = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
        found.append(nn.functional.cross_entropy(scores, ids[0, len(prompt) :], reduction="none"))
    return torch.cat(found)


def in_a_row(model: nn.Module, batch: TreeBatch, **changes: Tensor) -> Tensor:
    """The losses of the answers' tokens in the shared row, with other inputs if some are given; shape (tokens,)."""
    logits = model(**batch.inputs | changes).logits
    return batch.losses(logits)[batch.labels != IGNORED]


def gradients(model: nn.Module, loss: Tensor) -> Tensor:
    """All gradients of a loss, end to end."""
    return torch.cat([found.flatten() for found in torch.autograd.grad(loss, [*model.parameters()])])
