"""Sequences that share tokens in a row: each gets what it gets alone, at any depth, however a loss is added up."""

import pickle

import numpy as np
import pytest
import torch
import transformers
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers import (
    BertForMaskedLM,
    FalconForCausalLM,
    LlamaForCausalLM,
    MambaForCausalLM,
    Phi3ForCausalLM,
    RoFormerForCausalLM,
)

from packlib.batches import IGNORED
from packlib.model.attention import tree_block_mask, tree_pairs
from packlib.packing import pack_trees
from packlib.tools.rows import TreeCollator, lay_trees
from small_families import MAPPINGS, VOCABULARY, InDouble, quiet, randomize, small_config

FAMILIES = ("llama", "gpt2", "qwen3", "mistral", "gemma3_text", "mixtral", "gpt_neox", "llama4_text")
ROW = 40  # slots: less than the largest tree needs


def tree(generator, shape, begin=(), trained=()):
    """Paths of a tree: pairs of tokens, and whether each is trained on; `shape` is (tokens, trained, children)."""
    number, is_trained, children = shape
    own = [*begin, *torch.randint(4, VOCABULARY, (number,), generator=generator).tolist()]
    asked = [*trained, *[is_trained] * number]
    return [path for child in children for path in tree(generator, child, own, asked)] if children else [(own, asked)]


FORK = (3, False, ((5, True, ()), (2, True, ((6, True, ()), (1, True, ())))))
OTHER = (1, True, ((2, True, ()), (5, False, ((3, True, ()), (4, True, ())))))
DEEP = (
    (7, False, ((4, True, (FORK, (6, True, ()))), OTHER, (6, True, ()))),
    (1, False, ((2, True, ()), (3, True, ()))),  # one shared token: no slot of its own
    (5, True, ()),
    (1, True, ()),
)


def deep_trees():
    """Sequences, groups and labels; a beginning of a sequence and a copy of one are among them."""
    generator = torch.Generator().manual_seed(3)
    sequences, groups, labels = [], [], []
    for group, shape in enumerate(DEEP):
        for tokens, trained in tree(generator, shape):
            sequences.append(tokens)
            groups.append(group)
            labels.append([token if own else IGNORED for token, own in zip(tokens, trained, strict=True)])
    for copy, end in ((0, None), (0, 11), (3, 9)):  # the second ends where branches begin
        sequences.append(sequences[copy][:end])
        groups.append(0)
        labels.append([IGNORED] * 7 + sequences[-1][7:])
    return sequences, groups, labels


def in_rows(*, apart=None):
    """The trees packed, some of them into several rows; and those rows laid out."""
    sequences, groups, labels = deep_trees()
    rows = pack_trees(sequences, groups, ROW, apart=apart)
    assert rows.split_trees > 0
    return rows, list(lay_trees(rows, sequences, labels))


def of_family(family, backend="eager"):
    """A small causal model of this family of transformers."""
    config = small_config("causal", family)
    config._attn_implementation = backend
    model = getattr(transformers, MAPPINGS["causal"][family])(config).double().eval()
    randomize(model)
    return model


def alone(model, number):
    """Logits of a sequence in a row of its own, and the losses of its labels."""
    sequences, _, labels = deep_trees()
    ids = torch.tensor([sequences[number]])
    logits = model(input_ids=ids, use_cache=False).logits[0]
    found = -logits[:-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
    return logits, found[torch.tensor(labels[number])[1:] != IGNORED]


def gradients(model, loss):
    """The gradients of all weights in one flat tensor; 0 for a weight that the loss does not depend on."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = torch.autograd.grad(loss, trained, allow_unused=True)
    return torch.cat([torch.zeros(one.numel()) if g is None else g.flatten() for g, one in zip(found, trained)])  # noqa: B905


@pytest.mark.parametrize("family, backend", [*((family, "eager") for family in FAMILIES), ("llama", "sdpa")])
def test_logits_losses_and_gradients_are_those_of_each_path_alone(family, backend):
    with quiet(), InDouble():
        model = of_family(family, backend)
        collate = pickle.loads(pickle.dumps(TreeCollator(model, pad_id=2)))  # as workers get it
        _, laid = in_rows()
        batch = collate(laid)
        assert sorted(batch.sequences) == list(range(len(deep_trees()[0])))
        assert (batch.inputs["input_ids"] == 2).any()
        logits = model(**batch.inputs).logits
        found = [alone(model, number) for number in batch.sequences]
        width = logits.shape[1]
        for at, number in enumerate(batch.sequences):
            row, last = divmod(int(batch.last_slots[at]), width)
            until = torch.tensor(laid[row]["seen_until"])
            path = [slot for slot in range(last + 1) if until[slot] > last][: len(deep_trees()[0][number])]
            assert batch.inputs["input_ids"][row, path].tolist() == deep_trees()[0][number]
            assert (logits[row, path] - found[at][0]).abs().max() < 1e-10
        own = torch.cat([losses for _, losses in found])
        mean, loss = own.mean(), batch.loss(logits)
        assert (loss - mean).abs() < 1e-10
        assert (gradients(model, loss) - gradients(model, mean)).abs().max() < 1e-10
        sums = torch.stack([losses.sum() for _, losses in found])
        assert (batch.sequence_sums(batch.losses(model(**batch.inputs).logits)) - sums).abs().max() < 1e-10


def test_as_transformers_ships_it_a_model_agrees_to_rounding():
    with quiet():
        model = of_family("llama")  # its norms compute in float32, whatever the type of the model
        _, laid = in_rows()
        batch = TreeCollator(model)(laid)
        found = [alone(model, number)[1] for number in batch.sequences]
        loss, mean = batch.loss(model(**batch.inputs).logits), torch.cat(found).mean()
        assert (loss - mean).abs() < 1e-6
        assert (gradients(model, loss) - gradients(model, mean)).abs().max() < 1e-6


WAYS = {  # what each label of a sequence weighs: from the labels of each sequence, and a number drawn for each
    "mean over tokens": lambda labels, drawn: torch.ones(len(labels)) / labels.sum(),
    "mean over sequences": lambda labels, drawn: 1 / labels / len(labels),
    "advantages": lambda labels, drawn: drawn,
    "advantages by length": lambda labels, drawn: drawn / labels,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_label_weighs_as_much_as_all_sequences_that_have_it(way):
    with quiet(), InDouble():
        model = of_family("llama")
        _, laid = in_rows()
        batch = TreeCollator(model)(laid)
        drawn = torch.randn(len(batch.sequences), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        weights = WAYS[way](batch.labels_each.double().clamp(min=1), drawn)
        losses = [alone(model, number)[1] for number in batch.sequences]
        flat = sum(weight * own.sum() for weight, own in zip(weights, losses, strict=True))
        loss = batch.loss(model(**batch.inputs).logits, weights)
        right = gradients(model, flat)
        assert (loss - flat).abs() < 1e-10
        assert (gradients(model, loss) - right).abs().max() < 1e-10
        once = batch.slot_weights(weights) / batch.slot_weights(torch.ones_like(weights)).clamp(min=1)
        wrong = gradients(model, (batch.losses(model(**batch.inputs).logits) * once).sum())
        assert (wrong - right).abs().max() > 0.05 * right.abs().max()  # each label once is another loss


def clipped(ratio, weight):
    return -torch.minimum(ratio * weight, ratio.clamp(0.8, 1.2) * weight)


def test_a_clipped_objective_needs_a_sum_of_positive_and_one_of_negative_advantages():
    with quiet(), InDouble():
        model = of_family("llama")
        generator = torch.Generator().manual_seed(2)
        sequences, _, labels = deep_trees()
        old = {}  # of a shared token the same for all that share it
        values = []
        for group, own in zip(deep_trees()[1], sequences, strict=True):
            beginnings = [(group, *own[: n + 1]) for n in range(len(own))]
            for one in beginnings:
                old.setdefault(one, float(-4 + torch.randn((), generator=generator)))
            values.append([old[one] for one in beginnings])
        _, laid = in_rows(apart=values)
        batch = TreeCollator(model)(laid)
        advantages = torch.randn(len(batch.sequences), generator=generator, dtype=torch.float64)
        flat = 0
        for advantage, number in zip(advantages, batch.sequences, strict=True):
            trained = torch.tensor(labels[number])[1:] != IGNORED
            before = torch.tensor(values[number], dtype=torch.float64)[1:][trained]
            flat = flat + clipped(torch.exp(-alone(model, number)[1] - before), advantage).sum()
        right = gradients(model, flat)
        up, down = (batch.slot_weights(part) for part in (advantages.clamp(min=0), advantages.clamp(max=0)))
        old_by_slot, labeled = batch.at_labels(values), batch.labels != IGNORED

        def of_rows(*sums):
            ratio = torch.exp(-batch.losses(model(**batch.inputs).logits) - old_by_slot)
            return sum(clipped(ratio, one)[labeled].sum() for one in sums)

        assert (of_rows(up, down) - flat).abs() < 1e-10 * flat.abs()
        assert (gradients(model, of_rows(up, down)) - right).abs().max() < 1e-10 * right.abs().max()
        wrong = gradients(model, of_rows(up + down))
        assert (wrong - right).abs().max() > 0.01 * right.abs().max()


def test_old_values_that_differ_are_told_apart_or_refused():
    sequences, groups, _ = deep_trees()
    with quiet():
        batch = TreeCollator(LlamaForCausalLM(small_config("causal", "llama")))(in_rows()[1])
    values = [[float(at)] * len(own) for at, own in enumerate(sequences)]
    with pytest.raises(ValueError, match=r"must be equal where sequences share a label; .* pack_trees as apart="):
        batch.at_labels(values)
    assert pack_trees(sequences, groups, ROW, apart=values).tokens == sum(map(len, sequences))


def test_flex_attention_with_the_rule_of_three_lines_is_the_dense_mask():
    _, laid = in_rows()
    until = torch.tensor([max(laid, key=lambda row: len(row["input_ids"]))["seen_until"]])
    dense = tree_pairs(until, until)
    block = tree_block_mask(until)
    b, q, k = torch.meshgrid(*map(torch.arange, dense.shape), indexing="ij")
    assert torch.equal(block.mask_mod(b, 0, q, k).expand_as(dense), dense)
    drawn = torch.randn(3, 1, 2, until.shape[1], 16, generator=torch.Generator().manual_seed(0))
    with quiet():
        found = flex_attention(*drawn, block_mask=block)
    assert (found - scaled_dot_product_attention(*drawn, attn_mask=dense[:, None])).abs().max() < 1e-5


def test_padding_is_no_path_of_one_token_where_lengths_matter():
    """LongRoPE takes paths up to a limit, or only longer ones; the rows here have paths of 16 and of 12 tokens."""
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    with quiet():
        changes = {"rope_parameters": rope, "original_max_position_embeddings": 8}
        collate = TreeCollator(Phi3ForCausalLM(small_config("causal", "phi3", **changes)))
    sequences = [list(range(1, 17)), list(range(17, 29)), list(range(40, 46))]
    long = list(lay_trees(pack_trees(sequences[:2], [0, 1], 16), sequences[:2]))
    assert sorted(len(row["input_ids"]) for row in long) == [12, 16]
    assert collate(long).inputs["input_ids"].shape == (2, 16)
    mixed = list(lay_trees(pack_trees(sequences[::2], [0, 1], 16), sequences[::2]))
    with pytest.raises(ValueError, match="not of 6 to 16: LongRoPE"):
        collate(mixed)


def test_the_memory_of_a_mask_is_said_before_it_is_made():
    with quiet():
        collate = TreeCollator(LlamaForCausalLM(small_config("causal", "llama", max_position_embeddings=1 << 20)))
    width = 1 << 15
    row = {name: [] for name in ("sequences", "last_slots", "label_slots", "label_places", "label_sequences")}
    row |= {name: range(width) for name in ("input_ids", "position_ids", "labels")} | {"seen_until": [width] * width}

    class Made(Exception):
        pass

    def masks(*_):
        raise Made

    object.__setattr__(collate._handover, "masks", masks)
    with pytest.warns(UserWarning, match=r"1 rows of 32,768 slots takes 5\.0 GiB"), pytest.raises(Made):
        collate([row])
    rows = pack_trees([[1, 2], [1, 3]], [0, 0], 8)
    assert rows.mask_bytes() == 4 * 4**2


def test_what_would_not_be_exact_is_refused_by_name():
    with pytest.raises(TypeError, match="BertForMaskedLM cannot take trees: shared tokens would see the branches"):
        TreeCollator(BertForMaskedLM(small_config("masked", "bert")))
    with quiet(), pytest.raises(TypeError, match=r"Falcon.*(distances in slots|whole rows)"):
        TreeCollator(FalconForCausalLM(small_config("causal", "falcon", alibi=True)))
    with quiet(), pytest.raises(TypeError, match="RoFormerForCausalLM cannot take trees: it measures distances"):
        TreeCollator(RoFormerForCausalLM(small_config("causal", "roformer")))
    with quiet(), pytest.raises(TypeError, match="Mamba"):
        TreeCollator(MambaForCausalLM(small_config("causal", "mamba")))
    flash = LlamaForCausalLM(small_config("causal", "llama"))
    flash.config._attn_implementation = "flash_attention_2"
    with pytest.raises(TypeError, match="takes no mask of pairs"):
        TreeCollator(flash)
    short = LlamaForCausalLM(small_config("causal", "llama", max_position_embeddings=8))
    with pytest.raises(ValueError, match="the model's position table ends at 8"):
        TreeCollator(short)(in_rows()[1])
    with pytest.raises(ValueError, match="at least one row"):
        TreeCollator(LlamaForCausalLM(small_config("causal", "llama")))([])


def test_sequences_and_labels_that_do_not_fit_the_rows_are_named():
    sequences, groups, labels = deep_trees()
    rows = pack_trees(sequences, groups, ROW)
    with pytest.raises(ValueError, match="made for 15 sequences, not for 14 sequences"):
        list(lay_trees(rows, sequences[:-1]))
    with pytest.raises(ValueError, match="made for 15 sequences, not for 1 labels"):
        list(lay_trees(rows, sequences, labels[:1]))
    with pytest.raises(ValueError, match=rf"made for {len(sequences[2])} tokens of sequence 2, not for 1"):
        list(lay_trees(rows, [*sequences[:2], [5], *sequences[3:]]))
    with pytest.raises(ValueError, match=rf"Sequence 2 must have {len(sequences[2])} labels, not 1"):
        list(lay_trees(rows, sequences, [*labels[:2], [5], *labels[3:]]))
    shifted = [*labels[4][1:], IGNORED]
    with pytest.raises(ValueError, match=r"A label must be the token in its place, .* of sequence 4, or -100"):
        list(lay_trees(rows, sequences, [*labels[:4], shifted, *labels[5:]]))
    batch_rows = list(lay_trees(rows, sequences))  # all tokens but the first of each have labels
    assert sum(len(row["label_slots"]) for row in batch_rows) == sum(map(len, sequences)) - len(sequences)
    assert np.concatenate([row["label_places"] for row in batch_rows]).min() == 1
