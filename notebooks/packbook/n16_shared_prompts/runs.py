"""What notebook 16 computes: random chats and groups, ways to cut them into rows, and a small model on one row.

A group is a prompt with several answers. `Trees` has the nodes of sequences that share beginnings.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from packlib.batches import IGNORED
from packlib.packing import TreeRows, group_trees, pack_tree_lengths, pack_trees, plan
from packlib.packing.search.tree_bound import forced_copies
from packlib.packing.trees import Trees
from packlib.tools.rows import TreeBatch, lay_trees

SPREAD = 0.6  # standard deviation of the logarithm of lengths
THINK = 1  # the token that begins reasoning
SYSTEM, QUESTION, REASONING, ANSWER = 2000, 400, 700, 500  # median tokens of the parts of a chat


def outline(node: tuple, depth: int = 0) -> None:
    """Print the tokens of a node, a pair (tokens, children), and below it those of its children, indented."""
    tokens, children = node
    print("    " * depth + " ".join(tokens))
    for child in children:
        outline(child, depth + 1)


def as_numbers(paths: Sequence[Sequence[str]]) -> tuple[list[list[int]], list[str]]:
    """Turn sequences of words into sequences of numbers; return them and the word of each number."""
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
    """Return which slots (columns) each slot (row) of a row sees; bool, shape (slots, slots).

    Args:
        seen_until: of each slot, the first later slot that does not see it.
    """
    slots, until = np.arange(len(seen_until)), np.array(seen_until)
    return (slots <= slots[:, None]) & (slots[:, None] < until)


def branches(columns: Mapping[str, Sequence[int]]) -> list[int]:
    """Return the number of the answer that each slot belongs to; -1 for shared tokens."""
    seen_until, last_slots = columns["seen_until"], columns["last_slots"]  # of each slot, of each answer
    answer_ids = []
    for slot, until in enumerate(seen_until):
        answers = [answer for answer, last in enumerate(last_slots) if slot <= last < until]  # those that see the slot
        answer_ids.append(-1 if len(answers) > 1 else answers[0])
    return answer_ids


# A chat


def drawn_chat(turns: int, seed: int) -> tuple[list[int], list[tuple[list[int], list[int], list[int]]]]:
    """Draw the tokens of a chat, in parts of log-normal lengths.

    Returns:
        The system prompt, and for each turn its question, its reasoning and its answer.
    """
    rng = np.random.default_rng([seed, 16])

    def draw_part(median: int, *first_tokens: int) -> list[int]:
        length = max(8, int(rng.lognormal(np.log(median), SPREAD / 2)))
        return [*first_tokens, *rng.integers(100, 50_000, length - len(first_tokens)).tolist()]

    system = draw_part(SYSTEM)
    return system, [(draw_part(QUESTION), draw_part(REASONING, THINK), draw_part(ANSWER)) for _ in range(turns)]


def in_this_order(trees: Trees, order: Sequence[int], max_length: int) -> list[list[int]]:
    """Fill a row with sequences in an order until the next one does not fit, and then the next row.

    Returns:
        The sequences of each row.
    """
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
    """Return how many tokens a row with these sequences has; what they share counts once."""
    return int(trees.slots[list(nodes_of(trees, row))].sum())


def computed_twice(trees: Trees, rows: Sequence[Sequence[int]]) -> int:
    """Return how many tokens of all rows are in an earlier row, too."""
    return sum(tokens_of(trees, row) for row in rows) - int(trees.slots.sum())


def saved(trees: Trees) -> tuple[int, int]:
    """Return how many tokens sharing saves: because of what all sequences begin with, and of what only some share."""
    saved_by_all = (len(trees.lengths) - 1) * int(trees.slots[0])
    saved_in_total = int(trees.lengths.sum() - trees.slots.sum())
    return saved_by_all, saved_in_total - saved_by_all


def least_tokens(trees: Trees, max_length: int) -> int:
    """Return the proven minimum of tokens in all rows for these trees, with the copies that every packing has."""
    return int(trees.slots @ forced_copies(trees, max_length).rows)


def turns_in_words(row: Sequence[int]) -> str:
    """Return the turns of a row, counted from 1, with consecutive ones in short: "1 to 3, 5"."""
    runs: list[list[int]] = []  # of consecutive turns
    for turn in sorted(sequence + 1 for sequence in row):
        if runs and runs[-1][-1] == turn - 1:
            runs[-1].append(turn)
        else:
            runs.append([turn])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


# Groups


def drawn(
    prompt: float, answer: float, answers: int, max_length: int, groups: int, seed: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Draw the lengths of prompts and of the answers to each; they are log-normal.

    A prompt has at most three quarters of a row, and an answer fits into a row with its prompt.

    Args:
        prompt: median tokens of a prompt.
        answer: median tokens of an answer.
        answers: to each prompt.
    """
    rng = np.random.default_rng(seed)
    prompts = rng.lognormal(np.log(prompt), SPREAD, groups).clip(1, 3 * max_length // 4).astype(int)
    lengths = []
    for prompt_length in prompts:
        drawn_lengths = rng.lognormal(np.log(answer), SPREAD, answers)
        lengths.append(drawn_lengths.clip(1, max_length - prompt_length).astype(int))
    return prompts, lengths


def tokens_ratio(prompt: float, answer: float, answers: int) -> float:
    """Return the tokens of answers with a prompt each, divided by those of a group that has the prompt once.

    The last token of the prompt is not shared: it is repeated as the head of each answer.
    """
    tokens_unshared = answers * (prompt + answer)
    tokens_shared = prompt - 1 + answers * (answer + 1)
    return tokens_unshared / tokens_shared


def rows_in_three_ways(
    prompts: np.ndarray, answers: Sequence[np.ndarray], max_length: int
) -> tuple[dict[str, int], TreeRows]:
    """Pack groups with a prompt for each answer, as whole groups, and as groups that may be split.

    Args:
        prompts: tokens of each prompt.
        answers: for each prompt, the tokens of its answers.

    Returns:
        The number of rows by way, and the rows of groups that may be split.
    """
    unshared = np.concatenate([prompt + lengths for prompt, lengths in zip(prompts, answers, strict=True)])
    pieces = []  # tokens of whole groups; one longer than a row is cut by best fit, with the prompt in each piece
    for prompt, lengths in zip(prompts.tolist(), answers, strict=True):
        shared = prompt - 1  # its last token is the head of each answer
        branch_lengths = lengths + 1
        packs = plan(branch_lengths, max_length - shared, "lpfhp").assign(branch_lengths)
        pieces += (shared + packs.lengths_used).tolist()
    rows = pack_tree_lengths(group_trees(prompts, answers), max_length)
    counted = {
        "a prompt for each answer": plan(unshared, max_length, "lpfhp").num_packs,
        "whole groups": plan(pieces, max_length, "lpfhp").num_packs,
        "split where it pays": len(rows),
    }
    return counted, rows


def compared(recorded: Sequence[Mapping]) -> list[tuple[str, ...]]:
    """Compare `pack_trees` with other ways to pack trees, with a line for each family of recorded trees.

    Returns:
        The family, and rows above the bound in percent: of `pack_trees`, mean and worst, and of each other way, mean.
    """

    def mean_above(trees: Sequence[Mapping], way: str) -> float:
        """Return how far a way's rows are above the bound; a cell begins with its rows, or is empty."""
        return float(np.mean([int(tree[way].split()[0]) / tree["at least"] - 1 for tree in trees if tree[way]]))

    other_ways = ("nothing shared", "one level", "first fit of sequences", "whole trees first")
    lines = []
    for family in dict.fromkeys(tree["family"] for tree in recorded):
        trees = [tree for tree in recorded if tree["family"] == family]
        above = [tree["pack_trees"] / tree["at least"] - 1 for tree in trees]
        shares = (np.mean(above), max(above), *(mean_above(trees, way) for way in other_ways))
        lines.append((family, *(f"{100 * share:.1f} %" for share in shares)))
    return lines


# A small model


def small_model(seed: int) -> nn.Module:
    """Return a small GPT-2 with random weights, in float64."""
    from transformers import GPT2Config, GPT2LMHeadModel  # only its own loss, which is not used here, is in float32

    torch.manual_seed(seed)
    sizes = {"vocab_size": 64, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).double().eval()
    model.loss_type = "ForCausalLM"  # its default, of which it would warn
    return model


def small_group(seed: int, prompt: int, answers: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Return random tokens for a prompt with answers, as sequences and their labels; the prompt has no labels.

    Each answer begins with another token, so that the sequences share the prompt and no more.

    Args:
        prompt: its tokens.
        answers: tokens of each answer.
    """
    rng = np.random.default_rng(seed)
    prompt_tokens, *answer_tokens = (rng.integers(1, 64, length).tolist() for length in (prompt, *answers))
    first_tokens = rng.choice(np.arange(1, 64), len(answers), replace=False).tolist()
    answer_tokens = [[first, *tokens[1:]] for first, tokens in zip(first_tokens, answer_tokens, strict=True)]
    sequences = [prompt_tokens + tokens for tokens in answer_tokens]
    labels = [[IGNORED] * prompt + tokens for tokens in answer_tokens]
    return sequences, labels


def alone(model: nn.Module, sequences: Sequence[list[int]], labels: Sequence[list[int]]) -> Tensor:
    """Return the losses of the tokens with labels, each sequence in a row of its own; shape (labels,)."""
    losses_of_answers = []
    for tokens, labels_of_tokens in zip(sequences, labels, strict=True):
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, :-1]
        targets = torch.tensor(labels_of_tokens[1:])
        losses = nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="none")
        losses_of_answers.append(losses[targets != IGNORED])
    return torch.cat(losses_of_answers)


def in_a_row(model: nn.Module, batch: TreeBatch, **changes: Tensor | None) -> Tensor:
    """Return the losses of the tokens with labels in the shared row; shape (labels,).

    Args:
        changes: inputs of the model in place of the batch's.
    """
    logits = model(**batch.inputs | changes).logits
    return batch.losses(logits)[batch.labels != IGNORED]


def gradients(model: nn.Module, loss: Tensor) -> Tensor:
    """Return the gradient of a loss by all parameters, as one flat tensor."""
    return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, [*model.parameters()])])
