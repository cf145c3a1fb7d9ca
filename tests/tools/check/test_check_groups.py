"""`check_packing` of answers that share a prompt: the right batch passes, and each fault is named."""

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from packlib.packing import pack_trees
from packlib.tools.check import check_packing
from packlib.tools.rows import TreeCollator, lay_trees
from small_families import small_config


def groups(number=3):
    rng = np.random.default_rng(0)

    def draw(length):
        return rng.integers(4, 60, length).tolist()

    return [{"prompt": draw(6 + i), "answers": [draw(n) for n in (4, 7, 5)]} for i in range(number)]


def checked(found=None, spoil=lambda inputs, rows: inputs, given=lambda some: some, **options):
    """What a check finds where groups are laid out, two or three a row, and what the model gets is spoiled."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(small_config("causal", "llama", max_position_embeddings=256))
    ours = TreeCollator(model)

    def collate(some):
        pairs = [(at, one["prompt"], own) for at, one in enumerate(given(some)) for own in one["answers"]]
        sequences, labels = [p + own for _, p, own in pairs], [[-100] * len(p) + own for _, p, own in pairs]
        groups = [at for at, _, _ in pairs]
        rows = list(lay_trees(pack_trees(sequences, groups, 64, tries=0), sequences, labels))
        return spoil(ours(rows).inputs, rows)

    return check_packing(model, collate, found or groups(), **options)


def causal_alone(inputs, _):
    width = inputs["input_ids"].shape[1]
    return inputs | {"attention_mask": torch.ones(width, width).tril().bool().expand(len(inputs["labels"]), 1, -1, -1)}


def no_mask(inputs, _):
    return {name: value for name, value in inputs.items() if name != "attention_mask"}


def running_on(inputs, _):
    return inputs | {"position_ids": torch.arange(inputs["input_ids"].shape[1]).expand_as(inputs["input_ids"])}


def no_first_tokens(inputs, rows):
    labels = inputs["labels"].clone()
    for at, row in enumerate(rows):
        first = dict(zip(reversed(row["label_sequences"]), reversed(row["label_slots"]), strict=True))
        labels[at, list(first.values())] = -100
    return inputs | {"labels": labels}


def test_rows_that_share_prompts_are_exact():
    found = checked()
    assert found.exact is True, found
    assert [one.question for one in found.findings] == ["tokens", "isolation of answers", "same as alone", "loss"]


@pytest.mark.parametrize(("spoil", "failed", "cause"), [
    (causal_alone, "isolation of answers", "lets an answer see another one"),
    (no_mask, "same as alone", "does not see its prompt"),
    (running_on, "same as alone", "do not go on from its prompt"),
    (no_first_tokens, "loss", "first token of an answer has no label"),
])  # fmt: skip
def test_each_fault_is_named(spoil, failed, cause):
    found = checked(spoil=spoil)
    assert found.exact is False and cause in found[failed].cause, found
    assert (found["isolation of answers"].verdict == "failed") == (failed == "isolation of answers")


def test_an_answer_that_is_left_out_is_missed():
    found = checked(given=lambda some: [{**one, "answers": one["answers"][:2]} for one in some])
    assert found["tokens"].verdict == "failed" and "is not found whole" in found["tokens"].evidence


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(ValueError, match="reduction must be left out where answers share prompts"):
        checked(reduction="token")
    with pytest.raises(ValueError, match="at least 2 groups, not 1"):
        checked(groups(1))
    with pytest.raises(ValueError, match="Group 1 must have a prompt and answers"):
        checked([groups()[0], {"prompt": [5], "answers": [[]]}])
    with pytest.raises(ValueError, match=r"collate failed with a list of .* Detail: ZeroDivisionError"):
        checked(given=lambda some: 1 / 0)
