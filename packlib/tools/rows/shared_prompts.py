"""Rows in which answers share a prompt, for models of transformers as they are.

The prompt 7 8 6 with the answers 4 5 and 9 becomes, with `pack_groups`, one row of 7 slots in place of 5 + 4:

    input_ids         7    8    6    4    5    6    9
    position_ids      0    1    2    3    4    2    3    every answer goes on from the prompt
    labels         -100 -100 -100    4    5 -100    9
    answer_ids       -1   -1    0    0    0    1    1
    seen_until        7    7    5    5    5    7    7    the slot from which on a slot is not seen any more

The prompt's last token, 6, stands at the head of each answer's branch, because it predicts the first token of every
answer, and a slot predicts one token. All that is seen from a slot is the prompt and its own answer, so the model
computes there what it computes for prompt and answer alone, and its own loss is the mean over all tokens of answers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad
from transformers import PreTrainedModel

from packlib.batches import IGNORED
from packlib.checks import flag, whole_number
from packlib.lengths.counting import as_int64
from packlib.model.attention import added, tree_pairs
from packlib.model.unmodified import Handover
from packlib.packing import GroupRows

_FILLS = {"input_ids": 0, "position_ids": 0, "labels": IGNORED, "loss_weights": 0, "answer_ids": -1}
_BY_SLOT = ("gpt_neo", "mpt", "roformer")  # families that measure distances in slots, and not by positions


def lay_groups(
    rows: GroupRows,
    prompts: Sequence[Iterable[int]],
    answers: Sequence[Sequence[Iterable[int]]],
    *,
    prompt_loss: bool = False,
) -> Iterator[dict[str, list[int]]]:
    """Lay the tokens of groups into rows: for each row a mapping of columns, as drawn at the top of this file.

    >>> from packlib.packing import pack_groups
    >>> from packlib.tools.rows import lay_groups
    >>> prompts, answers = [[7, 8, 6]], [[[4, 5], [9]]]
    >>> rows = pack_groups([3], [[2, 1]], max_length=8)
    >>> [row["input_ids"] for row in lay_groups(rows, prompts, answers)]
    [[7, 8, 6, 4, 5, 6, 9]]

    Args:
        rows: what `pack_groups` made of the lengths.
        prompts: the tokens of each group's prompt.
        answers: for each group, the tokens of each of its answers.
        prompt_loss: whether the prompt's tokens have labels too. Each counts as often as there are answers in the row,
            as it would without sharing. Only `SharedPromptBatch.loss` knows of that; the model's own loss does not.

    Yields:
        `input_ids`, `position_ids`, `labels`, `loss_weights` (how often a label counts), `answer_ids` and
        `seen_until`, one value for each slot; and `groups`, `answers`, one for each answer: its group, and its number
        within the group.

    Raises:
        TypeError, ValueError: naming a prompt or answer that has another length than the rows were made for.
    """
    flag("prompt_loss", prompt_loss)
    for row, lengths in zip(rows, np.split(rows.lengths, rows.offsets[1:-1]), strict=True):
        columns: dict[str, list[int]] = {name: [] for name in (*_FILLS, "seen_until")}
        named = [(int(group), int(number)) for group, number in row]
        for group in dict.fromkeys(group for group, _ in named):
            prompt = _tokens(prompts[group], f"the prompt of group {group}", int(rows.prompts[group]))
            branches = [
                (at, _tokens(answers[group][number], f"answer {number} of group {group}", int(lengths[at])))
                for at, (own, number) in enumerate(named)
                if own == group
            ]
            _lay(columns, prompt, branches, prompt_loss)
        yield columns | {"groups": [group for group, _ in named], "answers": [number for _, number in named]}


def _tokens(given: Iterable[int], what: str, length: int) -> list[int]:
    tokens = as_int64(given, "Token", lambda at: f"position {at} of {what}").tolist()
    if len(tokens) != length:
        raise ValueError(f"The rows were made for {length} tokens of {what}, not for {len(tokens)}.")
    return tokens


def _lay(columns: dict[str, list[int]], prompt: list[int], branches: list, prompt_loss: bool) -> None:
    """Add a group to the columns of a row: its prompt without the last token, and then its branches."""
    shared, begin = len(prompt) - 1, len(columns["input_ids"])
    columns["input_ids"] += prompt[:-1]
    columns["position_ids"] += range(shared)
    columns["labels"] += [IGNORED, *prompt[1:-1]][:shared] if prompt_loss else [IGNORED] * shared
    columns["loss_weights"] += [0, *[len(branches) * prompt_loss] * (shared - 1)][:shared]
    columns["answer_ids"] += [-1] * shared
    columns["seen_until"] += [begin + shared + sum(1 + len(answer) for _, answer in branches)] * shared
    for nth, (at, answer) in enumerate(branches):
        own = 1 + len(answer)
        predicted = prompt_loss and shared > 0 and nth == 0  # by the slot before, the last that is shared
        columns["input_ids"] += [prompt[-1], *answer]
        columns["position_ids"] += range(shared, shared + own)
        columns["labels"] += [prompt[-1] if predicted else IGNORED, *answer]
        columns["loss_weights"] += [len(branches) * predicted, *[1] * len(answer)]
        columns["answer_ids"] += [at] * own
        columns["seen_until"] += [len(columns["seen_until"]) + own] * own


@dataclass(frozen=True, eq=False)
class SharedPromptBatch:
    """A batch of rows in which answers share prompts: `model(**batch.inputs)`.

    Attributes:
        inputs: `input_ids`, `position_ids`, `labels`, shape (B, T), `attention_mask`, one or a mapping of them by kind
            of layer, and `use_cache`: what the model takes.
        labels: those of `inputs`, -100 for none; a label is predicted by the slot before it.
        loss_weights: how often each label counts, 0 where there is none; int64, shape (B, T).
        answer_ids: which answer of the batch each slot belongs to, from 0, in the order of the rows, and -1 for shared
            tokens and padding; int64, shape (B, T). The head of a branch belongs to its answer.
        groups, answers: of each answer of the batch, its group, and its number within the group; lists.
    """

    inputs: dict[str, Any]
    labels: Tensor
    loss_weights: Tensor
    answer_ids: Tensor
    groups: list[int]
    answers: list[int]

    def losses(self, logits: Tensor) -> Tensor:
        """The negative log-probability of each label, 0 where there is none; shape (B, T), in the label's slot."""
        scores = logits if logits.dtype == torch.float64 else logits.float()
        found = cross_entropy(
            scores[:, :-1].transpose(1, 2), self.labels[:, 1:], ignore_index=IGNORED, reduction="none"
        )
        return pad(found, (1, 0))

    def loss(self, logits: Tensor) -> Tensor:
        """The mean over tokens, as if each answer had a prompt of its own."""
        return (self.losses(logits) * self.loss_weights).sum() / self.loss_weights.sum().clamp(min=1)

    def answer_sums(self, values: Tensor) -> Tensor:
        """The sum of values, shape (B, T), over the slots of each answer, such as its log-probability."""
        own = self.answer_ids >= 0
        return values.new_zeros(len(self.groups)).index_add(0, self.answer_ids[own], values[own])


class SharedPromptCollator:
    """Makes of rows of `lay_groups` a `SharedPromptBatch` for an unmodified causal model, with a mask of pairs.

    >>> from packlib.packing import pack_groups
    >>> from packlib.tools.rows import SharedPromptCollator, lay_groups
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
    >>> rows = pack_groups([3], [[2, 1]], max_length=8)
    >>> batch = SharedPromptCollator(model)(list(lay_groups(rows, [[7, 8, 6]], [[[4, 5], [9]]])))
    >>> batch.inputs["attention_mask"][0, 0, 5].long().tolist()  # the second answer's head
    [1, 1, 0, 0, 0, 1, 0]

    The mask of T² pairs a row is for the attention backends sdpa and eager. Kernels of variable length, such as flash
    attention, know sequences and no trees.

    Args:
        model: a causal model of transformers; only what must be known of it is kept.
        pad_id: the token that fills rows up to the longest of a batch.

    Raises:
        TypeError: if the model would not compute the same as for each prompt and answer alone, with the reason.
    """

    def __init__(self, model: PreTrainedModel, pad_id: int = 0) -> None:
        self.form, self.pad_id = Handover.of(model, "dense"), whole_number("pad_id", pad_id, 0)
        name, config = type(model).__name__, model.config
        if self.form.kind != "causal":
            raise TypeError(f"{name} cannot take shared prompts: a prompt's tokens would see its answers.")
        if config.model_type in _BY_SLOT or getattr(config, "alibi", False):
            raise TypeError(
                f"{name} cannot take shared prompts: it measures distances in slots, and between a prompt and its "
                "second answer lies the first."
            )

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> SharedPromptBatch:
        if not len(rows):
            raise ValueError("A batch needs at least one row; this one has none.")
        width, columns = max(len(row["input_ids"]) for row in rows), dict[str, Tensor]()
        for name, fill in (_FILLS | {"input_ids": self.pad_id, "seen_until": width}).items():
            filled = [[*row[name], *[fill] * (width - len(row[name]))] for row in rows]
            columns[name] = torch.tensor(filled, dtype=torch.int64)
        ends = columns["position_ids"][columns["seen_until"] == torch.arange(width) + 1] + 1  # of prompt and answer
        self.form.check_lengths(width, int(ends.min()), int(ends.max()))
        counts = torch.tensor([0, *[len(row["groups"]) for row in rows[:-1]]]).cumsum(0)[:, None]
        answer_ids = columns["answer_ids"] + counts * (columns["answer_ids"] >= 0)

        def within(_: bool, dtype: torch.dtype, rule: Any) -> Tensor:
            return added(tree_pairs(columns["seen_until"], columns["position_ids"], rule), dtype)

        inputs = {name: columns[name] for name in ("input_ids", "labels")} | {
            "position_ids": columns["position_ids"] + self.form.first_position,
            "attention_mask": self.form.masks(columns["input_ids"], within),
            "use_cache": False,
        }
        groups, answers = ([one for row in rows for one in row[name]] for name in ("groups", "answers"))
        given = {name: value for name, value in inputs.items() if self.form.takes(name)}
        return SharedPromptBatch(given, columns["labels"], columns["loss_weights"], answer_ids, groups, answers)
