"""`check_packing` on odd models, collators and steps: a verdict that is right, or one sentence of our own."""

import traceback
from pathlib import Path

import numpy as np
import pytest
import torch
from check_cases import SEGMENTS, Tiny, dense
from check_later import count
from check_reports import FLAT, SHORT, llama, of
from torch import nn

import packlib
from packlib.tools.check import check_packing

COLLATE = dense(**SEGMENTS)


class Answering(nn.Module):
    """A model whose answer is changed before it is returned."""

    def __init__(self, change):
        super().__init__()
        self.model, self.change = Tiny("attention"), change

    def forward(self, **batch):
        return self.change(self.model(**batch))


def answering(change):
    return Answering(change), COLLATE, SHORT


def stepping(step):
    return llama(), FLAT, SHORT, {"step": step}


def losing(loss):
    return llama(), FLAT, SHORT, {"loss": loss}


def collating(collate):
    return Tiny("attention"), collate, SHORT


REFUSED = {
    "a tuple in a tuple": (lambda: answering(lambda made: ((made["loss"], made["logits"]), None)),
                           "such as .logits of the shape (2, 40, width), not 0: tuple, 1: NoneType."),
    "lists": (lambda: answering(lambda made: {name: [x] for name, x in made.items()}), "not logits: list, loss: list."),
    "numpy": (lambda: answering(lambda made: {"logits": made["logits"].detach().numpy()}), "not logits: ndarray."),
    "a generator": (lambda: answering(lambda made: iter([made])), "not a list_iterator."),
    "whole numbers": (lambda: answering(lambda made: {"logits": made["logits"].argmax(-1)}), "not logits (2, 40)."),
    "slots of a soft prompt": (
        lambda: answering(lambda made: {"logits": nn.functional.pad(made["logits"], (0, 0, 4, 0))}),
        "not logits (2, 44, 120): 4 slots more, as a soft prompt (prompt tuning) puts before each row, and not before"),
    "a loss of each token": (lambda: answering(lambda made: made | {"loss": made["logits"].sum(-1)}),
                             "loss must be one number, not a tensor of the shape (2, 40): add it up"),
    "a loss of each token, outside": (lambda: losing(lambda output, batch: output.logits.sum(-1)),
                                      "loss must be one number, not a tensor of the shape (1, 67): add it up"),
    "a loss without gradients": (lambda: losing(lambda output, batch: 1.5),
                                 "loss must return a tensor of one number, which gradients pass through, not 1.5."),
    "no model": (lambda: (None, FLAT, SHORT), "model must be callable, not None."),
    "a name": (lambda: ("gpt2", FLAT, SHORT), "model must be callable, not 'gpt2'."),
    "a class": (lambda: (Tiny, FLAT, SHORT), "model must be a model, not the class Tiny: make one of it."),
    "no collator": (lambda: collating(None), "collate must be callable, not None."),
    "a step by name": (lambda: stepping("sgd"), "step must be callable, not 'sgd'."),
    "a loss by name": (lambda: losing("ce"), "loss must be callable, not 'ce'."),
    "no device": (lambda: (llama().to("meta"), FLAT, SHORT), "no parameter on the device meta, which holds no numbers"),
    "lists of tokens": (lambda: collating(lambda some: {name: x.tolist() for name, x in COLLATE(some).items()}),
                        "input_ids of a batch must be a tensor of whole numbers, not a list: convert it"),
    "a step without batches": (lambda: stepping(lambda model: None), "with a list of 2 micro-batches"),
    "tokens beyond the vocabulary": (
        lambda: (llama(), FLAT, [{"input_ids": [500, 6, 7 + at]} for at in range(5)]),
        "input_ids hold the token 500, and the model's vocabulary has 120"),
    "negative tokens": (lambda: (llama(), FLAT, [{"input_ids": [-1, 6, 7 + at]} for at in range(5)]),
                        "input_ids of sequence 0 must be at least 0, not -1."),
    "a group of lists": (lambda: (llama(), FLAT, [{**row, "group": [1]} for row in SHORT], {"group": "group"}),
                         "group must name a column of numbers or names, not of [1]."),
    "NaN": (lambda: answering(lambda made: made | {"logits": made["logits"] * torch.nan}),
            "model returned NaN or infinity for 67 of 67 tokens, and for a sequence alone too"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED, ids=lambda name: name.replace(" ", "_"))
def test_what_is_odd_is_one_sentence_of_our_own(name):
    make, says = REFUSED[name]
    model, collate, given, *options = make()
    with pytest.raises((TypeError, ValueError)) as refused:
        check_packing(model, collate, given, **(options[0] if options else {}))
    said = str(refused.value)
    assert says in said and "\n" not in said and len(said) < 700
    assert Path(traceback.extract_tb(refused.tb)[-1].filename).is_relative_to(Path(packlib.__file__).parent)


def searching(model, batches):
    """An optimizer that computes gradients more than once."""
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = sum(model(**batch, num_items_in_batch=count(batches)).loss for batch in batches)
        loss.backward()
        return loss

    optimizer.step(closure)


def by_closure(model, batches, weight=1.0):
    """An optimizer that computes gradients once, as Lightning hands it over."""
    optimizer = torch.optim.AdamW(model.parameters())

    def closure():
        optimizer.zero_grad()
        for batch in batches:
            (model(**batch, num_items_in_batch=count(batches)).loss * weight).backward()

    optimizer.step(closure)
    optimizer.zero_grad()


def of_nan(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    for batch in batches:
        (model(**batch).loss * torch.nan).backward()
    optimizer.step()


class Hiding(Tiny):
    """Its mask hides everything from the first token of a sequence that does not begin a row."""

    def _attention(self, part, x, segments, same, wrong):
        begins = (segments[:, 1:] != segments[:, :-1]) & (segments[:, 1:] > 1)
        same = same.clone()
        same[:, 1:][begins] = False
        query, key, value, _ = part(x).chunk(4, -1)
        return (query @ key.mT).masked_fill(~same, -torch.inf).softmax(-1) @ value


def kept_batches():
    """A collator that makes the same batch again, whatever it is given."""
    made = []

    def collate(some):
        made[:] = made or [COLLATE(some)]
        return dict(made[0])

    return collate


FOUND = {
    "NaN in packs alone": (lambda: (Hiding("attention"), COLLATE, SHORT), "same as alone", "hides all"),
    "a loss of NaN": (lambda: answering(lambda made: made | {"loss": made["loss"] * torch.nan}), "mean",
                      "no finite number"),
    "an update of NaN": (lambda: stepping(of_nan), "accumulation", "no finite numbers"),
    "a closure, twice too much": (lambda: stepping(lambda model, batches: by_closure(model, batches, 2.0)),
                                  "accumulation", "2 times what it should be"),
    "a collator that keeps its batch": (lambda: collating(kept_batches()), "tokens", "that it was not given"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND, ids=lambda name: name.replace(" ", "_"))
def test_what_is_odd_and_wrong_is_found(name):
    make, question, words = FOUND[name]
    model, collate, given, *options = make()
    found = check_packing(model, collate, given, **(options[0] if options else {}))
    assert found.exact is False
    assert words in found[question].cause, found


def frozen():
    return llama().requires_grad_(False)


OPEN = {
    "an optimizer that searches": (lambda: stepping(searching), "accumulation", "computes gradients more than once"),
    "nothing that learns": (lambda: (frozen(), FLAT, SHORT, {"step": by_closure}), "accumulation", "No parameter"),
    "a loss that is a float": (lambda: answering(lambda made: made | {"loss": float(made["loss"])}), "mean", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN, ids=lambda name: name.replace(" ", "_"))
def test_what_is_odd_and_inconclusive_says_so(name):
    make, question, words = OPEN[name]
    model, collate, given, *options = make()
    found = check_packing(model, collate, given, **(options[0] if options else {}))
    assert found.exact is not False
    assert found[question].verdict in ("inconclusive", "not asked") and words in found[question].evidence, found


def compiled():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    model = torch.compile(llama(), backend=backend)
    return model, graphs


def test_a_compiled_model_is_called_without_compiling_it_for_each_shape():
    model, graphs = compiled()
    found = check_packing(model, FLAT, SHORT, step=by_closure)
    assert found.exact is True and not graphs
    model(**FLAT(SHORT))
    assert graphs  # as before


RIGHT = {
    "a closure": lambda: stepping(by_closure),
    "bfloat16": lambda: (llama().bfloat16(), FLAT, SHORT),
    "a loss of one number in a row": lambda: answering(lambda made: made | {"loss": made["loss"][None]}),
    "numpy's whole numbers": lambda: (llama(), FLAT, [
        {name: np.asarray(x, np.int32) for name, x in row.items()} for row in SHORT]),
    "a generator of sequences": lambda: (llama(), FLAT, (row for row in of(9, 14, 5, 20))),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT, ids=lambda name: name.replace(" ", "_"))
def test_what_is_odd_and_right_passes(name):
    model, collate, given, *options = RIGHT[name]()
    found = check_packing(model, collate, given, **(options[0] if options else {}))
    assert found.exact is True, found
