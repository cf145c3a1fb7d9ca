"""`check_packing` of answers that share a prompt: the right batch passes, and each fault is named."""

import numpy as np
import pytest
import torch
from small_families import small_config
from transformers import LlamaForCausalLM

from packlib.check import check_packing
from packlib.packing import pack_groups
from packlib.rows import SharedPromptCollator, lay_groups


def groups(number=3, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "prompt": rng.integers(4, 60, 6 + i).tolist(),
            "answers": [rng.integers(4, 60, n).tolist() for n in (4, 7, 5)],
        }
        for i in range(number)
    ]


def model():
    torch.manual_seed(0)
    return LlamaForCausalLM(small_config("causal", "llama", max_position_embeddings=256))


def collator(module, spoil=lambda inputs, rows: inputs):
    """Lays groups out, two or three a row, and spoils what the model gets."""
    ours = SharedPromptCollator(module)

    def collate(found):
        prompts, answers = [one["prompt"] for one in found], [one["answers"] for one in found]
        packed = pack_groups([*map(len, prompts)], [[*map(len, own)] for own in answers], 64, tries=0)
        rows = list(lay_groups(packed, prompts, answers))
        return spoil(ours(rows).inputs, rows)

    return collate


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
        ids = np.array(row["answer_ids"])
        labels[at, np.flatnonzero((ids[1:] >= 0) & (ids[1:] != ids[:-1])) + 2] = -100  # behind the head
    return inputs | {"labels": labels}


def test_rows_that_share_prompts_are_exact():
    module = model()
    found = check_packing(module, collator(module), groups())
    assert found.exact is True, found
    assert [one.question for one in found.findings] == ["tokens", "isolation of answers", "same as alone", "loss"]


@pytest.mark.parametrize(
    ("spoil", "failed", "cause"),
    [
        (causal_alone, "isolation of answers", "lets an answer see another one"),
        (no_mask, "same as alone", "does not see its prompt"),
        (running_on, "same as alone", "do not go on from its prompt"),
        (no_first_tokens, "loss", "first token of an answer has no label"),
    ],
)
def test_each_fault_is_named(spoil, failed, cause):
    module = model()
    found = check_packing(module, collator(module, spoil), groups())
    assert found.exact is False and cause in found[failed].cause, found


def test_positions_and_labels_alone_do_not_leak():
    module = model()
    for spoil in (running_on, no_first_tokens):
        assert check_packing(module, collator(module, spoil), groups())["isolation of answers"].verdict == "passed"


def test_an_answer_that_is_left_out_is_missed():
    module = model()
    whole = collator(module)
    found = check_packing(
        module, lambda some: whole([{**one, "answers": one["answers"][:2]} for one in some]), groups()
    )
    assert found["tokens"].verdict == "failed" and "is not found whole" in found["tokens"].evidence


def test_what_cannot_be_asked_is_refused():
    module = model()
    with pytest.raises(ValueError, match="reduction must be left out where answers share prompts"):
        check_packing(module, collator(module), groups(), reduction="token")
    with pytest.raises(ValueError, match="at least 2 groups, not 1"):
        check_packing(module, collator(module), groups(1))
    with pytest.raises(ValueError, match="Group 1 must have a prompt and answers"):
        check_packing(module, collator(module), [groups()[0], {"prompt": [5], "answers": [[]]}])
