"""`check_packing` on set-ups after public reports, and what it says of questions that nothing asks."""

import json
import re

import check_beyond as beyond
import check_fourth as fourth
import check_later as later
import check_reports as reports
import check_second as second
import check_table as table
import numpy as np
import pandas
import pytest
import torch
from check_cases import SEGMENTS, Tiny, dense, make, padded, sequences, without_gradients
from torch.nn import functional as F
from transformers import OPTConfig, OPTForCausalLM

from packlib.tools.check import check_packing
from packlib.tools.cli import main

LINES = {name: {column: text for column, text in line.items() if column != "cpu_seconds"}
         for name, line in table.recorded().items()}  # fmt: skip


@pytest.mark.parametrize("name", table.RIGHT, ids=lambda name: name.replace(" ", "_"))
def test_what_is_right_raises_no_alarm(name):
    found = table.checked(table.RIGHT[name]())
    assert found.exact is True, found
    assert table.row("right", name, found) == LINES[name]


@pytest.mark.parametrize("name", table.FAULTS, ids=lambda name: name.replace(" ", "_"))
def test_a_fault_is_found_and_its_cause_named(name):
    case, question, words = table.FAULTS[name]
    found = table.checked(case())
    assert found.exact is False
    assert found[question].verdict == "failed" and words in found[question].cause, found
    assert table.row("faulty", name, found) == LINES[name]


@pytest.mark.parametrize("name", table.OPEN, ids=lambda name: name.replace(" ", "_"))
def test_the_table_shows_what_is_missed(name):
    found = table.checked(table.OPEN[name]())
    assert table.row("missed", name, found) == LINES[name]
    _, question, words = table.INCONCLUSIVE.get(name, (None, "next update", "a new optimizer in each call"))
    assert words in found[question].evidence, found


def test_half_of_the_checks_of_the_table_took_at_most_two_seconds():
    seconds = [float(line["cpu_seconds"]) for line in table.recorded().values()]
    assert 0 < np.median(seconds) <= 2


def test_the_table_has_a_line_for_each_set_up():
    assert list(LINES) == [*table.RIGHT, *table.FAULTS, *table.OPEN]
    kinds = [line["kind"] for line in LINES.values()]
    assert kinds.count("faulty") >= 40 and kinds.count("right") >= 30


@pytest.mark.parametrize(("kind", "least"), [("faulty", 40), ("right", 30)])
def test_many_set_ups_are_after_public_reports(kind, least):
    after = [line["report"] for line in LINES.values() if line["kind"] == kind and line["report"]]
    assert len(after) >= least and all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report) for report in after)


@pytest.mark.parametrize(("says", "arguments"), [
    ("collate returned a tuple: return one mapping, whose tokens are input_ids.",
     (Tiny("attention"), lambda rows: (dense()(rows)["input_ids"],), reports.SHORT)),
    ("sequences must not be a pandas frame: pass datasets.Dataset.from_pandas(frame).",
     (Tiny("attention"), dense(), pandas.DataFrame(reports.SHORT))),
    ("loss failed when it was called as loss(output, batch): see that it takes what model returns "
     "(test_check_reports.py, ",
     (Tiny("attention"), dense(**SEGMENTS), reports.SHORT, {"loss": lambda output, batch: batch["targets"]})),
    ("in any order (test_check_reports.py, line ",
     (Tiny("attention"), lambda rows: np.stack([[1], [1, 2]]), reports.SHORT)),
    ("with a list of 2 micro-batches (test_check_reports.py, line ",
     (Tiny("attention"), dense(**SEGMENTS), reports.SHORT, {"step": lambda model, batches: batches[0]["targets"]})),
    ("and the fields input_ids, labels, position_ids, pixel_values: see that it takes this batch before it is checked "
     "(",
     (reports.images.llava(), lambda rows: {
         **reports.images.packed(rows, grids=False, mask=False), "pixel_values": torch.zeros(1, 3, 8, 8)},
      reports.images.illustrated(whole=True))),
    ("model must return numbers for each token", (lambda **_: None, dense(), reports.SHORT)),
    ("model must return numbers for each token", (lambda **_: {"logits": [1.0]}, dense(), reports.SHORT)),
    ("model must return numbers for each token", (lambda **_: torch.zeros(2, 3), dense(), reports.SHORT)),
    ("must be a tensor of whole numbers", (Tiny("attention"), lambda rows: {"input_ids": "abc"}, reports.SHORT)),
])  # fmt: skip
def test_what_cannot_be_checked_is_one_sentence(says, arguments):
    with pytest.raises((TypeError, ValueError)) as refused:
        table.checked(arguments)
    assert says in str(refused.value) and "\n" not in str(refused.value)


class Counting(Tiny):
    """A model without a config that refuses another number of placeholders than four for each image."""

    def forward(self, input_ids, pixel_values, **more):
        if (input_ids == reports.images.IMAGE).sum() != 4 * len(pixel_values):
            raise ValueError("Image features and image tokens do not match")
        return super().forward(input_ids, **more)


def test_placeholders_are_kept_as_keep_says():
    rows = reports.images.illustrated(whole=True)

    def collate(some):
        return {**dense(**SEGMENTS)(some), "pixel_values": torch.stack([row["pixels"] for row in some])}

    assert check_packing(Counting("attention"), collate, rows, keep=[reports.images.IMAGE]).exact is True
    with pytest.raises(
        ValueError, match=r"of its tokens were exchanged .* in keep .*, line \d+\)\. Detail: ValueError: Im"
    ):
        check_packing(Counting("attention"), collate, rows)


@pytest.mark.parametrize("keep", [60, "60", [1.5], ["a"]])
def test_tokens_that_are_kept_are_whole_numbers(keep):
    with pytest.raises(TypeError, match="keep must be whole numbers, the ids of tokens, not"):
        check_packing(Tiny("attention"), dense(**SEGMENTS), sequences(), keep=keep)


def test_the_command_takes_tokens_to_keep(tmp_path, monkeypatch, capsys):
    """As `keep` does in Python, which one does not come through the command without."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images.py").write_text(KEEPING)
    assert main(["check", "images.py:make", "--keep", "60", "--keep", "61", "--no-progress"]) == 0
    assert main(["check", "images.py:make", "--no-progress"]) == 2
    said = capsys.readouterr().err
    assert "were exchanged for others of the batch: name those that must stay" in said and said.count("\n") == 1


KEEPING = """
import torch
import check_reports as reports
import check_second as second
from check_cases import SEGMENTS, dense
from test_check_reports import Counting


def make():
    def collate(some):
        return {**dense(**SEGMENTS)(some), "pixel_values": torch.stack([row["pixels"] for row in some])}

    return Counting("attention"), collate, reports.images.illustrated(whole=True)
"""


def test_an_update_with_noise_is_inconclusive():
    found = table.checked(beyond.stepping_oddly("noise"))
    assert found.exact is None and "The step draws noise of its own" in found["accumulation"].evidence


class Copied(torch.nn.Module):
    """States as they are, in a part of its own."""

    def forward(self, states):
        return states * 1.0


class OtherParts(second.Noisy):
    """Noise by the length of the row, in a model with one part more where a row holds several sequences."""

    def __init__(self):
        super().__init__()
        self.copied = Copied()

    def forward(self, input_ids, position_ids, labels):
        states = self.model.model.embed_tokens(input_ids)
        if int((position_ids == 0).sum()) > 1:
            states = self.copied(states)
        if self.training:
            states = states + torch.rand_like(states) * 0.1 / input_ids.shape[1] ** 0.5
        return self.model(inputs_embeds=states, position_ids=position_ids, labels=labels)


def test_layers_that_are_left_out_at_random_end_no_check():
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 4, "num_attention_heads": 2}
    config = OPTConfig(vocab_size=512, max_position_embeddings=128, word_embed_proj_dim=32, layerdrop=0.5, **sizes)
    model = OPTForCausalLM(config).train()
    found = table.checked((model, reports.FLAT, reports.SHORT))
    assert "was not compared: calls go through other parts" in found.not_asked["training"]


def test_noise_that_was_not_compared_is_not_passed():
    found = table.checked((OtherParts(), reports.FLAT, reports.SHORT))
    assert "was not compared" in found.not_asked["training"]


def test_parameters_learn_as_before_after_a_batch_of_whole_sequences():
    model, collate, rows = beyond.RIGHT["longer than max_tokens, by one batch more"]()
    frozen = model.lm_head.weight.requires_grad_(False)
    check_packing(model, collate, rows)
    assert all(p.requires_grad is (p is not frozen) for p in model.parameters())


def test_what_is_too_long_for_any_batch_is_said_by_number():
    found = table.checked(beyond.RIGHT["far longer than max_tokens"]())
    said = found.not_asked["whole sequences"]
    assert "1 of your sequences, of up to 5,000 tokens, were cut to 2,048" in said and "with max_tokens 1,250" in said
    longer = table.checked(beyond.RIGHT["longer than max_tokens, by one batch more"]())
    assert (
        "7 of 7 sequences, of up to 450 tokens, were in one batch of 517 slots" in longer["whole sequences"].evidence
    )
    assert longer["whole sequences"].verdict == "passed" and not longer.not_asked.keys() & {"whole sequences"}


def test_experts_that_are_balanced_over_a_batch_are_inconclusive():
    found = check_packing(reports.Experts("batch"), dense(**SEGMENTS), reports.SHORT)
    assert found.exact is None and "balances experts" in found["mean"].evidence


def test_what_is_left_out_is_said_by_number():
    found = check_packing(reports.llama(), reports.FLAT, reports.of(51, 26, 56, 48, 9, 38, 32, 20, 40, 330))
    said = found["tokens"].evidence
    assert "The model got 8 of 10 sequences, the longest among them; 2 of " in said
    assert "Of 8 sequences 1 were cut to 300 tokens" in said


def test_what_nothing_has_is_not_asked_and_said():
    one_a_row = check_packing(make("MambaForCausalLM"), padded, sequences())
    assert one_a_row.exact is True
    assert {"isolation from earlier sequences", "isolation from later sequences"} <= one_a_row.not_asked.keys()
    assert "No row holds two of your 6 sequences" in one_a_row.not_asked["isolation from earlier sequences"]
    one_row = check_packing(make("LlamaForCausalLM"), reports.FLAT, sequences())
    assert one_row.exact is True and {"padding", "several rows"} <= one_row.not_asked.keys()
    assert json.loads(one_row.to_json())["not_asked"] == one_row.not_asked
    assert "Not asked: padding, " in repr(one_row).splitlines()[-1]
    whole = check_packing(Tiny("attention"), dense(**SEGMENTS), sequences())
    assert not whole.not_asked


def test_a_window_that_no_sequence_exceeds_is_not_asked():
    wide = check_packing(make("MistralForCausalLM", sliding_window=64), reports.FLAT, sequences())
    assert wide.exact is True and "20 tokens, and the model's window 64" in wide.not_asked["windows"]
    narrow = check_packing(make("MistralForCausalLM"), reports.FLAT, sequences())
    assert "windows" not in narrow.not_asked


def test_ends_stay_where_borders_are_looked_for_in_tokens():
    """A model that looks for end tokens needs them; without another token, ends are exchanged like all others."""
    right, wrong = (fourth.RIGHT["allenai/OLMo-core#843, an end of each"](),
                    fourth.FAULTS["allenai/OLMo-core#843, no end where a sequence was cut"][0]())  # fmt: skip
    assert table.checked(right).exact is True
    found = table.checked(wrong)
    assert (
        "some sequences of a row are kept apart and others are not" in found["isolation from earlier sequences"].cause
    )
    shift, collate, _ = later.FAULTS["RWKV, a token shift over the border"][0]()
    for model in (shift, without_gradients(shift)):  # which only the last token of a sequence comes through
        seen = check_packing(model, collate, later.ENDED)["isolation from earlier sequences"]
        assert "a token shift" in seen.cause, seen
    few = [{"input_ids": [2] * twos + [7] * sevens} for twos, sevens in ((2, 3), (3, 2), (4, 1), (1, 5))]
    leaking = check_packing(without_gradients(Tiny("attention", fault="attention")), dense(**SEGMENTS), few)
    assert leaking["isolation from earlier sequences"].verdict == "failed", leaking


class ByNumber(fourth.Weighted):
    """The first sequence of a row weighs 0.6, each other one 0.4 of what is left, whichever they are."""

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        weight = torch.tensor([0.6, 0.4])[: int(segment_ids.max())]
        return super().forward(input_ids, position_ids, segment_ids, labels, weight)

    def _loss(self, logits, labels, segments, items):
        target = F.pad(labels[:, 1:], (0, 1), value=-100)
        each, weight = fourth.entropies(logits, target)[0], self.weight / self.weight.sum()
        parts = [each[segments[0] == number] for number in range(1, len(weight) + 1)]
        counts = [(target[0][segments[0] == number] != -100).sum() for number in range(1, len(weight) + 1)]
        return sum(one.sum() / count * w for one, count, w in zip(parts, counts, weight, strict=True))


def test_what_the_place_in_a_batch_weighs_is_no_weight_of_the_sequence():
    """Of two sequences only the same two in the other order tell these apart."""
    found = check_packing(ByNumber("by sequence"), fourth.in_one_row, reports.SHORT[:2])
    assert found["mean"].verdict == "failed" and "company" in found["mean"].cause, found


class Wide(fourth.Narrow):
    """A window of 4 tokens that a sequence alone gets, and packs do not."""

    def _attention(self, part, x, segments, same, wrong):
        if len(segments.unique()) == 1:
            return super()._attention(part, x, segments, same, wrong)
        return Tiny._attention(self, part, x, segments, same, wrong)


def test_a_window_that_a_sequence_alone_gets_is_named():
    found = check_packing(Wide(everywhere=True), dense(slots=80, **SEGMENTS), reports.SHORT)
    assert "see more tokens in a pack than alone" in found["same as alone"].cause, found
    assert "In the pack the first and the last of 20 tokens depend on 1 and 20" in found["same as alone"].evidence


def test_a_target_of_a_further_head_in_the_next_sequence_is_named():
    found = table.checked(table.FAULTS["NVIDIA/Megatron-LM#1661, two tokens ahead over borders"][0]())["further heads"]
    assert (
        "is asked for tokens of the next sequence" in found.cause
        and "4 times for a token of the next" in found.evidence
    )


def test_the_scores_themselves_are_no_further_head():
    found = check_packing(Tiny("attention"), dense(**SEGMENTS), reports.SHORT)
    assert "further heads" not in {one.question for one in found.findings}, found
