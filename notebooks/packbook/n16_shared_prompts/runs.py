"""What notebook 16 computes: chats and groups that are drawn, ways to cut them, and a small model on a row of one."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from packlib.batches import IGNORED
from packlib.packing import TreeRows, group_trees, pack_tree_lengths, pack_trees, plan
from packlib.packing.search.tree_bound import forced_copies
from packlib.packing.trees import Trees
from packlib.tools.rows import TreeBatch, lay_trees

SPREAD = 0.6  # of the logarithm of lengths
THINK = 1  # the token that begins reasoning
SYSTEM, QUESTION, REASONING, ANSWER = 2000, 400, 700, 500  # median tokens of the parts of a chat


def outline(node: tuple, depth: int = 0) -> None:
    """Print a node, its tokens and the nodes below, each deeper one further to the right."""
    tokens, below = node
    print("    " * depth + " ".join(tokens))
    for one in below:
        outline(one, depth + 1)


def as_numbers(paths: Sequence[Sequence[str]]) -> tuple[list[list[int]], list[str]]:
    """Return the words as tokens: the sequences as numbers, and the word of each number."""
    names = list(dict.fromkeys(word for path in paths for word in path))
    return [[names.index(word) for word in path] for path in paths], names


def one_row(prompt: list[int], answers: list[list[int]]) -> dict[str, list[int]]:
    """Return the columns of the row that holds a group, as `lay_trees` makes them; the prompt has no labels."""
    sequences = [prompt + answer for answer in answers]
    labels = [[IGNORED] * len(prompt) + answer for answer in answers]
    rows = pack_trees(sequences, [0] * len(answers), 1024, tries=0)
    (row,) = lay_trees(rows, sequences, labels)
    return row


def pairs_of(seen_until: Sequence[int]) -> np.ndarray:
    """Return which slots of a row each slot sees; bool, shape (slots, slots)."""
    slots, until = np.arange(len(seen_until)), np.array(seen_until)
    return (slots <= slots[:, None]) & (slots[:, None] < until)


def branches(columns: Mapping[str, Sequence[int]]) -> list[int]:
    """Return each slot's number of its answer, -1 for shared tokens."""
    until, last = columns["seen_until"], columns["last_slots"]
    seen_by = [[at for at, end in enumerate(last) if slot <= end < until[slot]] for slot in range(len(until))]
    return [-1 if len(answers) > 1 else answers[0] for answers in seen_by]


# A chat


def drawn_chat(turns: int, seed: int) -> tuple[list[int], list[tuple[list[int], list[int], list[int]]]]:
    """Draw the tokens of a system prompt, and of each turn's question, reasoning and answer; log-normal lengths."""
    rng = np.random.default_rng([seed, 16])

    def tokens(median: int, *begin: int) -> list[int]:
        number = max(8, int(rng.lognormal(np.log(median), SPREAD / 2)))
        return [*begin, *rng.integers(100, 50_000, number - len(begin)).tolist()]

    system = tokens(SYSTEM)
    return system, [(tokens(QUESTION), tokens(REASONING, THINK), tokens(ANSWER)) for _ in range(turns)]


def in_this_order(trees: Trees, order: Sequence[int], max_length: int) -> list[list[int]]:
    """Fill a row with sequences in an order until the next does not fit, and then the next row."""
    rows: list[list[int]] = [[]]
    for sequence in order:
        if tokens_of(trees, [*rows[-1], sequence]) > max_length:
            rows.append([])
        rows[-1].append(sequence)
    return rows


def nodes_of(trees: Trees, row: Sequence[int]) -> set[int]:
    """Return the nodes that a row with these sequences needs."""
    return {node for sequence in row for node in trees.path(int(trees.leaves[sequence]))}


def tokens_of(trees: Trees, row: Sequence[int]) -> int:
    """Return the tokens of a row with these sequences."""
    return int(trees.slots[list(nodes_of(trees, row))].sum())


def computed_twice(trees: Trees, rows: Sequence[Sequence[int]]) -> int:
    """Return the tokens in all rows that another row holds already."""
    return sum(tokens_of(trees, row) for row in rows) - int(trees.slots.sum())


def saved(trees: Trees) -> tuple[int, int]:
    """Return the tokens that sharing saves: by what all sequences begin with, and by what some of them share."""
    by_all = (len(trees.lengths) - 1) * int(trees.slots[0])
    return by_all, int(trees.lengths.sum() - trees.slots.sum()) - by_all


def least_tokens(trees: Trees, max_length: int) -> int:
    """Return the proven minimum of tokens in all rows for these trees, with the copies that every packing has."""
    return int(trees.slots @ forced_copies(trees, max_length).rows)


def turns_in_words(row: Sequence[int]) -> str:
    """Return the turns of a row, neighbors in short: 1 to 3, 5."""
    parts: list[list[int]] = []
    for turn in sorted(at + 1 for at in row):
        if parts and parts[-1][-1] == turn - 1:
            parts[-1].append(turn)
        else:
            parts.append([turn])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts)


# Groups


def drawn(
    prompt: float, answer: float, answers: int, max_length: int, groups: int, seed: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return log-normal lengths of prompts and of the answers to each; medians are given.

    A prompt takes three quarters of a row at most, and an answer what its prompt leaves.
    """
    rng = np.random.default_rng(seed)
    prompts = rng.lognormal(np.log(prompt), SPREAD, groups).clip(1, 3 * max_length // 4).astype(int)
    lengths = [rng.lognormal(np.log(answer), SPREAD, answers).clip(1, max_length - one).astype(int) for one in prompts]
    return prompts, lengths


def tokens_ratio(prompt: float, answer: float, answers: int) -> float:
    """Return the tokens of answers with a prompt each, divided by those of a group that holds the prompt once."""
    return answers * (prompt + answer) / (prompt - 1 + answers * (answer + 1))


def rows_in_three_ways(
    prompts: np.ndarray, answers: Sequence[np.ndarray], max_length: int
) -> tuple[dict[str, int], TreeRows]:
    """Count the rows by way: a prompt for each answer, whole groups, and groups that may be split; and the last."""
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


def compared(recorded: Sequence[Mapping]) -> list[tuple[str, ...]]:
    """Return, by family of recorded trees, rows above the bound: of `pack_trees`, mean and worst, and of others."""

    def mean_above(own: Sequence[Mapping], peer: str) -> float:
        """Read how far a peer's rows are above the bound: its cell has them in brackets, or is empty."""
        return float(np.mean([int(row[peer].split()[0]) / row["at least"] - 1 for row in own if row[peer]]))

    peers = ("nothing shared", "one level", "first fit of sequences", "whole trees first")
    rows = []
    for family in dict.fromkeys(row["family"] for row in recorded):
        own = [row for row in recorded if row["family"] == family]
        above = [row["pack_trees"] / row["at least"] - 1 for row in own]
        others = [mean_above(own, peer) for peer in peers]
        rows.append((family, *(f"{100 * share:.1f} %" for share in (np.mean(above), max(above), *others))))
    return rows


# A small model


def small_model(seed: int) -> nn.Module:
    """Return a decoder of transformers with random weights, in double precision."""
    from transformers import GPT2Config, GPT2LMHeadModel  # it computes nothing in float32 but its own loss

    torch.manual_seed(seed)
    sizes = {"vocab_size": 64, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).double().eval()
    model.loss_type = "ForCausalLM"  # its default, of which it would warn
    return model


def small_group(seed: int, prompt: int, answers: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Return random tokens for a prompt with answers, as sequences and their labels: none on the prompt.

    Each answer begins with a token of its own, so that a tree shares the prompt and no more.
    """
    rng = np.random.default_rng(seed)
    shared, *own = (rng.integers(1, 64, number).tolist() for number in (prompt, *answers))
    firsts = rng.choice(np.arange(1, 64), len(answers), replace=False).tolist()
    own = [[first, *others[1:]] for first, others in zip(firsts, own, strict=True)]
    return [shared + one for one in own], [[IGNORED] * prompt + one for one in own]


def alone(model: nn.Module, sequences: Sequence[list[int]], labels: Sequence[list[int]]) -> Tensor:
    """Return the losses of the tokens with labels, each sequence in a row of its own; shape (labels,)."""
    losses_of_answers = []
    for tokens, own in zip(sequences, labels, strict=True):
        scores = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, :-1]
        losses = nn.functional.cross_entropy(scores, torch.tensor(own[1:]), ignore_index=IGNORED, reduction="none")
        losses_of_answers.append(losses[torch.tensor(own[1:]) != IGNORED])
    return torch.cat(losses_of_answers)


def in_a_row(model: nn.Module, batch: TreeBatch, **changes: Tensor | None) -> Tensor:
    """Return the losses of the labels in the shared row, with other inputs if some are given; shape (labels,)."""
    logits = model(**batch.inputs | changes).logits
    return batch.losses(logits)[batch.labels != IGNORED]


def gradients(model: nn.Module, loss: Tensor) -> Tensor:
    """Return all gradients of a loss, end to end."""
    return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, [*model.parameters()])])
