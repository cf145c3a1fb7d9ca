"""`check_packing` of trees: the right batch passes, and each of three faults is named."""

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from packlib.packing import pack_trees
from packlib.tools.check import check_packing
from packlib.tools.rows import TreeCollator, lay_trees
from small_families import small_config


def trees(number=3, shared_labels=True):
    """Chats whose history is a tree of depth 4; with labels on shared turns, or on leaves alone."""
    rng = np.random.default_rng(0)

    def draw(length):
        return rng.integers(4, 60, length).tolist()

    found = []
    for _ in range(number):
        paths, labels, history = [], [], draw(6)
        for _ in range(4):
            leaf = draw(5)
            paths.append(history + leaf)
            labels.append(
                [-100] * (1 if shared_labels else len(history)) + (history[1:] if shared_labels else []) + leaf
            )
            history = history + draw(4)
        found.append({"paths": paths, "labels": labels})
    return found


def checked(found=None, spoil=lambda inputs, rows: inputs, by_path=True, given=lambda some: some):
    torch.manual_seed(0)
    model = LlamaForCausalLM(small_config("causal", "llama", max_position_embeddings=256))
    ours, made = TreeCollator(model), []

    def collate(some):
        pairs = []
        for at, one in enumerate(given(some)):
            pairs += [(at, path, own) for path, own in zip(one["paths"], one["labels"], strict=True)]
        groups, paths, labels = map(list, zip(*pairs, strict=True))
        rows = list(lay_trees(pack_trees(paths, groups, 96, tries=0), paths, labels))
        made.append(ours(rows))
        return spoil(made[-1].inputs, rows)

    def loss(output, batch):
        if "labels" not in batch:  # a path alone
            return output.logits.mean()
        return made[-1].loss(output.logits) if by_path else output.loss

    return check_packing(model, collate, found or trees(), loss=loss)


def causal_alone(inputs, _):
    width = inputs["input_ids"].shape[1]
    return inputs | {"attention_mask": torch.ones(width, width).tril().bool().expand(len(inputs["labels"]), 1, -1, -1)}


def running_on(inputs, _):
    return inputs | {"position_ids": torch.arange(inputs["input_ids"].shape[1]).expand_as(inputs["input_ids"])}


def test_rows_of_trees_are_exact():
    found = checked()
    assert found.exact is True, found
    assert [one.question for one in found.findings] == ["tokens", "isolation of branches", "same as alone", "loss"]
    assert checked(trees(shared_labels=False), by_path=False).exact is True  # the model's own loss is right there


@pytest.mark.parametrize(("options", "failed", "cause"), [
    ({"spoil": causal_alone}, "isolation of branches", "lets an answer see another one"),
    ({"spoil": running_on}, "same as alone", "do not go on from its prompt"),
    ({"by_path": False}, "loss", "counts once, and not for each of them"),
])  # fmt: skip
def test_each_fault_is_named(options, failed, cause):
    found = checked(**options)
    assert found.exact is False and cause in found[failed].cause, found
    verdicts = {one.question: one.verdict for one in found.findings}
    assert verdicts["tokens"] == "passed"
    if failed == "loss":
        assert [name for name, verdict in verdicts.items() if verdict == "failed"] == ["loss"]


def test_a_path_that_is_left_out_is_missed():
    found = checked(
        given=lambda some: [{**one, "paths": one["paths"][:3], "labels": one["labels"][:3]} for one in some]
    )
    assert found["tokens"].verdict == "failed" and "of path 3 are not found in one piece" in found["tokens"].evidence


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(ValueError, match="at least 2 groups, not 1"):
        checked(trees(1))
    with pytest.raises(ValueError, match="Group 1 must have paths of at least 2 tokens"):
        checked([trees()[0], {"paths": [[5]], "labels": [[5]]}])
    with pytest.raises(ValueError, match="labels of group 1 must be lists as long as its paths"):
        checked([trees()[0], {"paths": [[5, 6]], "labels": [[5]]}])
    with pytest.raises(ValueError, match="reduction must be left out where sequences are trees"):
        check_packing(lambda **_: None, lambda some: some, trees(), reduction="token")
