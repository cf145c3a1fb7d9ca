"""`check_packing` finds each fault and names its cause, and finds none where there is none."""

import json
import shutil
import sys
from functools import partial

import check_cases as cases
import check_today as today
import numpy as np
import pytest
import torch
from check_cases import SEGMENTS, Tiny, dense, make, masked, ours, padded, sequences, spoiled
from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from transformers import BertConfig, DataCollatorWithFlattening

from packlib.model import PackedBert
from packlib.tools.check import check_packing
from packlib.tools.cli import main
from packlib.tools.rows.loss_masks import LOSS_MASKS

ROWS, ENCODED = sequences(), masked(sequences(prompts=False))
TYPED = masked(sequences(prompts=False, types=True))
LONG = [*ROWS, {"input_ids": np.random.default_rng(0).integers(6, 120, 140).tolist()}]
SMALL = {"vocab_size": 120, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 1}  # fmt: skip


FLAT = DataCollatorWithFlattening()
llama, gpt2, bert = (partial(make, name) for name in ("LlamaForCausalLM", "GPT2LMHeadModel", "BertForMaskedLM"))


def own(*layers, **options):
    """A model of our own, and packs in which segment ids tell the sequences apart."""
    return Tiny(*layers, **options), dense(**SEGMENTS), ROWS


def odd(fault, **options):
    return cases.Odd(fault, **options), dense(**SEGMENTS), ROWS


# What is right: model, collator, sequences and options
RIGHT = {
    "padding-free": lambda: (llama(), FLAT, ROWS),
    "padding-free, with all that kernels take": lambda: (
        llama(), DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_seq_idx=True), ROWS),
    "padding-free with windows in some layers": lambda: (make("Gemma3ForCausalLM"), FLAT, ROWS),
    "4D": lambda: (llama(), dense(), ROWS),
    "4D, running positions that rotate": lambda: (llama(), dense(positions="run on"), ROWS),
    "4D with a window": lambda: (make("MistralForCausalLM"), dense(window=4), ROWS),
    "4D with a position table": lambda: (gpt2(), dense(), ROWS),
    "4D, eager, bfloat16": lambda: (llama("eager").bfloat16(), dense(dtype=torch.bfloat16), ROWS),
    "4D encoder": lambda: (bert(), dense(causal=False), ENCODED),
    "4D encoder with token types": lambda: (bert(), dense(causal=False), TYPED),
    "boolean 4D with sdpa": lambda: (bert(), dense(causal=False, mask="boolean"), ENCODED),
    "positions from 2": lambda: (make("RobertaForMaskedLM"), dense(causal=False, start=2), ENCODED),
    "padded encoder with windows": lambda: (make("ModernBertForMaskedLM"), padded, ENCODED),
    "padded state space": lambda: (make("MambaForCausalLM"), padded, ROWS),
    "PackedBert": lambda: (PackedBert(BertConfig(**SMALL)), ours, ENCODED),
    "every kind of layer": lambda: (
        Tiny("state", "attention", answer="tuple"), dense(**SEGMENTS), ROWS),
    "each sequence padded": lambda: (llama(), cases.multiples, ROWS),
    "mixed precision": lambda: (cases.Autocast(llama()), FLAT, ROWS),
    "no position ids": lambda: (Tiny("attention"), dense(**SEGMENTS, positions="none"), ROWS),
    "by sequence": lambda: (*own("attention", reduction="sequence"), {"reduction": "sequence"}),
    "torch's own layers": lambda: (cases.OfTorch(), dense(**SEGMENTS, causal=False), ENCODED),
    "a plain function": lambda: (cases.without_gradients(Tiny("attention")), dense(**SEGMENTS), ROWS),
    "tokens without rows": lambda: (cases.Flat(), cases.flat, ROWS),
    "dropout in training": lambda: (llama(attention_dropout=0.3).train(), FLAT, ROWS),
    "24 sequences": lambda: (llama(), FLAT, sequences(24)),
    "twice the mean": lambda: odd("twice"),
    "label smoothing": lambda: odd("smoothing"),
    "a z-loss": lambda: odd("z-loss"),
    "a sum over tokens": lambda: own("attention", reduction="sum"),
    "masked at random, by sequence": lambda: (
        Tiny("attention", causal=False, reduction="sequence"), cases.masked_at_random,
        sequences(prompts=False), {"reduction": "sequence"}),
}  # fmt: skip

EARLIER, LATER, ALONE = "isolation from earlier sequences", "isolation from later sequences", "same as alone"

# What is wrong, the question that fails, and words of its cause
FAULTS = {
    "all-ones 2D mask": (lambda: (llama(), dense(mask="ones"), ROWS), EARLIER, "all ones"),
    "no document mask": (lambda: (llama(), dense(mask=None, positions="none"), ROWS), EARLIER, "no document mask"),
    "no document mask, running positions": (
        lambda: (gpt2(), dense(mask=None, positions="run on"), ROWS), EARLIER, "position_ids run on"),
    "boolean 4D mask with eager": (lambda: (llama("eager"), dense(mask="boolean"), ROWS), EARLIER, "boolean"),
    "boolean 4D mask with eager, alone": (lambda: (llama("eager"), dense(mask="boolean"), ROWS), ALONE, "boolean"),
    "positions that run on": (lambda: (gpt2(), dense(positions="run on"), ROWS), "positions", "run on"),
    "positions that run on, by themselves": (lambda: (gpt2(), dense(positions="none"), ROWS), "positions", "run on"),
    "positions from the wrong start": (
        lambda: (make("RobertaForMaskedLM"), dense(causal=False), ENCODED), "positions",
        "at 0 where the model begins at 2"),
    "sliding window replaced": (lambda: (make("MistralForCausalLM"), dense(), ROWS), ALONE, "with one of 4"),
    "windows of some layers replaced": (
        lambda: (make("ModernBertForMaskedLM"), dense(causal=False), ENCODED), ALONE, "sliding window, of some layers"),
    "state-space state": (lambda: (make("MambaForCausalLM"), FLAT, ROWS), EARLIER, "state space"),
    "convolution": (lambda: (make("Lfm2ForCausalLM"), FLAT, ROWS), EARLIER, "a convolution across packs"),
    "linear-attention state": (lambda: (make("Qwen3NextForCausalLM"), FLAT, ROWS), EARLIER, "linear attention"),
    "state, without gradients": (
        lambda: (cases.without_gradients(Tiny("state", fault="state")), dense(**SEGMENTS), ROWS),
        EARLIER, "a state across packs"),
    "next sequence's first token as a target": (
        lambda: (llama(), dense(leaked=True), sequences(prompts=False)), "targets at borders", "leaked"),
    "leaked target, without gradients": (
        lambda: (cases.without_gradients(llama()), dense(leaked=True), sequences(prompts=False)),
        "mean", "depends on its company"),
    "prompt labels lost": (
        lambda: (llama(), lambda rows: dense()([{"input_ids": row["input_ids"]} for row in rows]), ROWS),
        "labels", "prompt labels are lost"),
    "token mean for sequence mean": (
        lambda: (llama(), dense(), ROWS, {"reduction": "sequence"}), "mean",
        "over tokens where a mean over each sequence"),
    "mean over packs": (
        lambda: (PackedBert(BertConfig(**SMALL), reduction="pack"), ours, ENCODED), "mean", "mean over packs"),
    "mean of means": (
        lambda: (llama(), dense(), ROWS, {"step": cases.mean_of_means}), "accumulation", "a mean of means"),
    "cache left on": (lambda: (llama(use_cache=True), FLAT, ROWS), EARLIER, "cache is left on"),
    "all-ones 2D mask, and the cache left on": (
        lambda: (llama(use_cache=True), dense(mask="ones"), ROWS), EARLIER, "and the cache is left on"),
    "last sample lost": (lambda: (llama(), lambda rows: dense()(rows[:-1] or rows), ROWS), "tokens", "the last one"),
    "a sequence twice": (lambda: (llama(), lambda rows: dense()([*rows, rows[0]]), ROWS), "tokens", "twice"),
    "padding attended": (
        lambda: (bert(), lambda rows: padded(rows, ones=True), ENCODED), "padding", "padding is attended"),
    # and what the field has not complained of yet
    "labels shifted twice": (
        lambda: (llama(), spoiled(dense(), labels=lambda x: F.pad(x[:, 1:], (0, 1), value=-100)), ROWS),
        "labels", "shifted twice"),
    "labels not shifted": (lambda: own("attention", fault="does not shift"), "labels", "not shifted"),
    "last label of each": (lambda: own("attention", fault="leaves out the last"), "labels", "last token of each"),
    "padding trained on": (lambda: (llama(), dense(train_padding=True), ROWS), "labels", "padding is trained on"),
    "border off by one": (lambda: (llama(), dense(off=1), ROWS), EARLIER, "a border is in the wrong place"),
    "slots numbered by the model": (lambda: own("attention", fault="numbers slots"), "positions", "the model numbers"),
    "leak in one layer, both ways": (
        lambda: (Tiny("attention", "attention", causal=False, fault="attention 1"), dense(**SEGMENTS, causal=False),
                 ENCODED), LATER, "no document mask"),
    "a softmax by hand without a mask": (
        lambda: (cases.ByHand("attention", fault="attention"), dense(**SEGMENTS), ROWS), EARLIER, "no document mask"),
    "one head, before the rows": (
        lambda: (cases.HeadsFirst(1, fault="attention"), dense(**SEGMENTS), ROWS), EARLIER, "no document mask"),
    "four heads, before the rows": (
        lambda: (cases.HeadsFirst(4, fault="attention"), dense(**SEGMENTS), ROWS), EARLIER, "no document mask"),
    "look ahead": (lambda: own("attention", fault="sees ahead"), "labels", "looks ahead"),
    "mask transposed": (
        lambda: (llama(), spoiled(dense(), attention_mask=lambda x: x.mT), ROWS), ALONE, "transposed"),
    "token types by sequence": (
        lambda: (bert(), dense(causal=False, types=True), TYPED), ALONE, "token_type_ids change"),
    "dropout left on": (lambda: own("attention", fault="dropout"), "determinism", "dropout is left on"),
    "memory of the call before": (lambda: own("attention", fault="memory"), "determinism", "kept from call to call"),
    "batch normalization in training": (
        lambda: (cases.OfTorch(statistics=True).train(), dense(**SEGMENTS, causal=False), ENCODED), LATER,
        "normalization"),
    "batch normalization of one row": (
        lambda: (cases.OfTorch(statistics=True).train(), dense(slots=80, **SEGMENTS, causal=False), ENCODED), EARLIER,
        "normalization"),
    "mean over all slots": (lambda: own("attention", reduction="slot"), "mean", "a mean over all slots"),
    "count ignored": (lambda: own("attention", fault="ignores the count"), "accumulation", "mean of means"),
    "labels of another row": (
        lambda: (llama(), spoiled(dense(), labels=lambda x: x.roll(1, 0)), ROWS), "labels", "belong to other tokens"),
    "truncated": (
        lambda: (llama(), lambda rows: dense()([{name: x[:12] for name, x in row.items()} for row in rows]), ROWS),
        "tokens", "truncated"),
    "loss times the rows": (lambda: odd("times rows"), "mean", "multiplied by the number of rows"),
    "loss over the sequences": (lambda: odd("over sequences"), "mean", "divided by the number of sequences"),
    "gradients times the depth of a pack": (lambda: odd("gradients by pack"), "mean", "depends on its company"),
    "weights that add up to two": (lambda: odd("twice in company"), "mean", "depends on its company"),
    "weights that add up to nothing": (lambda: odd("nothing in company"), "mean", "have no weight in the loss"),
    "label smoothing over prompts": (lambda: odd("smoothing over prompts"), "labels", "padding or prompts"),
    "positions of 8 bits": (
        lambda: (llama(), spoiled(dense(slots=160), position_ids=lambda x: x.to(torch.int8).long()), LONG),
        "positions", "integers overflows"),
    "positions clipped": (lambda: odd("positions clipped"), "positions", "computes otherwise with them"),
    "segment ids that come again": (lambda: odd("ids come again"), EARLIER, "some sequences of a row"),
    "pieces of sequences": (lambda: (llama(), cases.wrapped, ROWS), "tokens", "cut into pieces"),
    "end tokens added": (
        lambda: (llama(), lambda rows: cases.multiples(rows, 1, end=[3]), ROWS), "tokens", "adds special tokens"),
}  # fmt: skip


def joined(name):
    """The name of a case as one word, as names of tests are."""
    return name.replace(" ", "_")


def checked(case):
    model, collate, rows, *options = case
    return check_packing(model, collate, rows, **(options[0] if options else {}))


# What is right as far as can be told, and what cannot be
OPEN_QUESTIONS = {
    "a plain function": "no gradient with respect to the scores",
}  # fmt: skip


@pytest.mark.parametrize("name", [*RIGHT, *today.RIGHT], ids=joined)
def test_what_is_right_raises_no_alarm(name):
    found = checked((RIGHT | today.RIGHT)[name]())
    assert found.exact is (None if name in OPEN_QUESTIONS else True), found
    for finding in found.findings:
        assert finding.verdict != "inconclusive" or OPEN_QUESTIONS[name] in finding.evidence


@pytest.mark.parametrize("name", today.OPEN, ids=joined)
def test_what_is_inconclusive_is_neither_exact_nor_accused(name):
    case, question, words = today.OPEN[name]
    found = checked(case())
    assert found.exact is None and found[question].verdict == "inconclusive"
    assert words in found[question].evidence and question in repr(found).splitlines()[-1]


SINGLE = {  # faults that leave every other question as it is, but for these
    "positions that run on": {ALONE}, "sliding window replaced": set(), "prompt labels lost": set(),
    "next sequence's first token as a target": set(), "token mean for sequence mean": set(),
    "mean over packs": set(), "mean of means": set(),
    "last sample lost": set(), "a sequence twice": set(), "truncated": set(), "cache left on": {ALONE},
    "convolution": {ALONE}, "state-space state": {ALONE}, "padding attended": {ALONE}, "mask transposed": set(),
    "loss times the rows": set(), "gradients times the depth of a pack": set(),
    "label smoothing over prompts": set(), "last label of each": set(),
    "padding trained on": set(), "dropout left on": set(),
}  # fmt: skip


@pytest.mark.parametrize("name", [*FAULTS, *today.FAULTS], ids=joined)
def test_a_fault_is_found_and_its_cause_named(name):
    case, question, words = (FAULTS | today.FAULTS)[name]
    found = checked(case())
    assert found.exact is False
    assert found[question].verdict == "failed" and words in found[question].cause, found
    assert found[question].remedy and any(letter.isdigit() for letter in found[question].evidence)
    if name in SINGLE:
        failed = {finding.question for finding in found.findings if finding.verdict == "failed"}
        assert failed == {question, *SINGLE[name]}, found


TINY = Tiny("attention")


@pytest.mark.parametrize(("says", "arguments"), [
    ("reduction must be 'token', 'sequence', 'group' or 'constant', not 'tokens'",
     (*own("attention"), {"reduction": "tokens"})),
    ("group must be a column of all sequences, not 'pair'", (*own("attention"), {"group": "pair"})),
    ("model must be callable, not 3.", (3, dense(), ROWS)),
    ("sequences must be mappings with input_ids, not 5.", (TINY, dense(), 5)),
    ("sequences must be mappings with input_ids", (TINY, dense(), [{"ids": [1]}])),
    ("input_ids of sequence 0 must be whole", (TINY, dense(), [{"input_ids": [1.5]}] * 2)),
    ("2 different ones, not 1 of 3.", (TINY, dense(), [{"input_ids": [7, 8]}] * 3)),
    ("collate must return a mapping with input_ids, not 7.", (TINY, lambda _: 7, ROWS)),
    ("input_ids of a batch must be a tensor", (TINY, lambda _: {"input_ids": [1]}, ROWS)),
    ("collate failed with a list of 6 of your sequences: it must take any number of them, in any order "
     "(test_check.py, line ", (TINY, lambda rows: 1 / 0, ROWS)),
    ("Row 1 of sequences holds 2 sequences, as its seq_lengths or position_ids say: give single sequences",
     (TINY, dense(), [{"input_ids": [7, 8, 9]}, {"input_ids": [5, 6, 7, 8], "seq_lengths": [1, 3]}])),
    ("Row 0 of sequences holds 3 sequences",
     (TINY, dense(), [{"input_ids": [7, 8, 9, 5], "position_ids": [0, 0, 1, 0]}, *ROWS])),
    ("model must return numbers for each token", (lambda **_: {"loss": torch.ones(())}, dense(), ROWS)),
    ("collate must keep the tokens of the sequences",
     (TINY, lambda rows: {"input_ids": torch.zeros(2, 9, dtype=torch.long)}, ROWS)),
])  # fmt: skip
def test_what_cannot_be_checked_is_refused_in_one_sentence(says, arguments):
    with pytest.raises((TypeError, ValueError)) as refused:
        checked(arguments)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_the_model_is_left_as_it_was_also_when_interrupted():
    model, collate = cases.OfTorch(statistics=True).train(), dense(**SEGMENTS, causal=False)
    model.encoder.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes, threads = [part.training for part in model.modules()], torch.get_num_threads()
    torch.manual_seed(5)
    expected = torch.rand(3)
    calls = []

    def step(model, batches):
        sum(model(**batch)[0] for batch in batches).backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()

    def stop(module, arguments):
        calls.append(torch.is_grad_enabled())
        if len(calls) == 9:
            raise KeyboardInterrupt

    for interrupted in (False, True):
        torch.manual_seed(5)
        if interrupted:
            handle = model.register_forward_pre_hook(stop)
            with pytest.raises(KeyboardInterrupt):
                check_packing(model, collate, ENCODED)
            handle.remove()
        else:
            check_packing(model, collate, ENCODED, step=step)
        assert torch.equal(torch.rand(3), expected)
        assert modes == [part.training for part in model.modules()] and torch.get_num_threads() == threads
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        assert all(p.grad is None for p in model.parameters())
        assert not torch.nn.modules.module._global_forward_hooks


def test_the_sequences_given_are_not_changed():
    rows = sequences()

    def collate(given):
        batch = dense(**SEGMENTS)(given)
        for row in given:
            row.pop("labels")
        return batch

    assert check_packing(Tiny("attention"), collate, rows).exact
    assert rows == sequences()


def test_a_sequence_that_comes_twice_is_checked_once():
    once, twice = (check_packing(llama(), FLAT, rows) for rows in (ROWS, [*ROWS, ROWS[1], ROWS[0]]))
    assert twice.exact and twice == once


def test_findings_are_read_as_text_as_a_table_and_as_json(tmp_path):
    found = check_packing(*own("attention", fault="attention"))
    path = tmp_path / "check.json"
    found.save(path)
    assert path.read_text() == found.to_json() + "\n"
    read = json.loads(found.to_json())
    assert read["exact"] is False and read["findings"][2]["verdict"] == "failed"
    assert repr(found).splitlines()[-1] == "9 passed, 2 failed, 1 inconclusive. Inconclusive: positions."
    assert "    cause: no document mask" in repr(found)
    page = found._repr_html_()
    assert page.count("<tr>") == len(found.findings) + 1
    cells = [page.count(f'<{tag} style="text-align:left">') for tag in ("th", "td")]
    assert cells == [5, 5 * len(found.findings)] and "<td>" not in page


def test_questions_that_cannot_be_answered_say_why():
    found = check_packing(bert(), dense(causal=False), ENCODED)
    assert found["accumulation"].verdict == "not asked" and "pass step" in found["accumulation"].evidence

    def without_loss(input_ids, **_):
        return F.one_hot(input_ids, 120).float()

    unlabeled = check_packing(without_loss, dense(), ROWS)
    assert {unlabeled[question].verdict for question in ("labels", "mean", "accumulation")} == {"inconclusive"}
    assert "no loss" in unlabeled["mean"].evidence and unlabeled[EARLIER].verdict == "passed"


def test_a_loss_outside_the_model_is_checked_too():
    def next_token(output, batch):
        logits, labels = output["logits"][:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten()
        return F.cross_entropy(logits, labels)

    model, collate, rows = Tiny("attention"), dense(**SEGMENTS, leaked=True), sequences(prompts=False)
    found = check_packing(model, collate, rows, loss=next_token)
    assert found["targets at borders"].verdict == "failed" and found["mean"].verdict == "passed", found


MINE = """
import sys

import check_cases as cases


def make():
    return cases.Tiny("attention"), cases.dense(segments=True, mask=None), cases.sequences()


def wrong():
    parts = cases.Tiny("state", fault="state"), cases.dense(segments=True, mask=None), cases.sequences()
    return dict(zip(("model", "collate", "sequences"), parts)) | {"reduction": "token"}


def inconclusive():
    model, collate, rows = make()
    return model, lambda some: {**collate(some), "labels": None}, rows


def nothing():
    return 3


def ends():
    sys.exit(0)


def ends_in_step():
    return wrong() | {"step": lambda model, batches: sys.exit(0)}


def broken():
    return {}["x"]


collate = cases.dense(slots=90, mask="ones")
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_training.py").write_text(MINE)
    return tmp_path


def test_the_command_prints_findings_and_has_a_code_for_each_verdict_and_a_log(here, capsys):
    exact = {"make": True, "wrong": False, "inconclusive": None}
    for name, code in zip(exact, (0, 1, 3), strict=True):
        assert main(["check", f"my_training.py:{name}", "--no-progress", "--log", "checks.jsonl"]) == code
    said = capsys.readouterr().out
    assert "isolation from later sequences: passed" in said
    assert "Inconclusive: targets at borders, labels, mean, accumulation." in said
    lines = [json.loads(line) for line in (here / "checks.jsonl").read_text().splitlines()]
    assert {line["target"].partition(":")[2]: line["exact"] for line in lines} == exact
    assert main(["check", "my_training.py:make", "--json", "--no-progress"]) == 0
    assert json.loads(capsys.readouterr().out)["exact"] is True


@pytest.mark.parametrize(("arguments", "says"), [
    ("my_training.py", "What to check must be module:function or a folder with a model, not 'my_training.py'."),
    ("my_training.py:none", "There is no function 'my_training.py:none': my_training.py has no 'none'."),
    ("no_module_of_mine:make", "No module named 'no_module_of_mine'."),
    ("nowhere.py:make", "There is no file nowhere.py."),
    ("my_training.py:nothing", "my_training.py:nothing must return model, collate and sequences, not 3."),
    ("my_training.py:make --reduction pack", "--reduction must be 'token', 'sequence'"),
    ("empty", "empty must hold config.json and safetensors"),
    ("remote", "The architecture in remote/config.json must be"),
])  # fmt: skip
def test_the_command_refuses_in_one_sentence(here, capsys, arguments, says):
    for name in ("empty", "remote"):
        (here / name).mkdir()
    (here / "remote" / "model.safetensors").write_bytes(b"")
    about = {"architectures": ["Mine"], "auto_map": {"AutoModelForCausalLM": "mine.Mine"}}
    (here / "remote" / "config.json").write_text(json.dumps(about))
    (here / "remote" / "mine.py").write_text("raise SystemExit('remote code was run')")
    assert main(["check", *arguments.split(), "--no-progress"]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1


@pytest.mark.parametrize("name, says", [
    ("ends", "SystemExit: 0 (my_training.py, line 26)."), ("ends_in_step", "SystemExit: 0 (my_training.py, line 30)."),
    ("broken", "KeyError: 'x' (my_training.py, line 34)."),
])  # fmt: skip
def test_code_that_ends_the_process_is_no_verdict(here, capsys, name, says):
    assert main(["check", f"my_training.py:{name}", "--no-progress"]) == 2
    assert capsys.readouterr().err == f"packlib: my_training.py:{name} could not be checked: {says}\n"


def test_a_file_in_another_folder_finds_what_is_beside_it(here, capsys):
    place = here / "some" / "where"
    place.mkdir(parents=True)
    (place / "beside_it.py").write_text(MINE)
    (place / "mine.py").write_text("def make():\n    import beside_it\n\n    return beside_it.make()\n")
    (place / "lacks.py").write_text("import my_training\nimport no_faults_of_mine\n\n\ndef make():\n    pass\n")
    before = sys.path[:]
    assert main(["check", "some/where/mine.py:make", "--no-progress"]) == 0
    assert main(["check", "my_training.py:make", "--collate", "some/where/beside_it.py:collate", "--no-progress"]) == 1
    capsys.readouterr()
    assert main(["check", "some/where/lacks.py:make", "--no-progress"]) == 2
    assert "ModuleNotFoundError: No module named 'no_faults_of_mine' (lacks.py, line 2)." in capsys.readouterr().err
    assert sys.path == before


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model as transformers saves it."""
    path = tmp_path_factory.mktemp("models") / "llama"
    llama().save_pretrained(path)
    return path


WEIGHTS = "model.safetensors"


def configure(folder, **changes):
    about = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(about | changes))


def weigh(folder, change):
    """Other tensors in the file."""
    save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS, {"format": "pt"})


# What is wrong with a folder, and words of the one sentence that says so
DAMAGED = {
    "truncated": (lambda at: (at / WEIGHTS).write_bytes((at / WEIGHTS).read_bytes()[:-99]),
        "SafetensorError: Error while deserializing header"),
    "one tensor": (
        lambda at: weigh(at, lambda tensors: dict([tensors.popitem()])), "weights of LlamaForCausalLM are missing: "),
    "other shapes": (
        lambda at: configure(at, vocab_size=99),
        "another shape than config.json says: lm_head.weight, model.embed_tokens.weight."),
    "no numbers": (
        lambda at: weigh(at, lambda tensors: {name: x * torch.nan for name, x in tensors.items()}), "are not finite: "),
    "adapter": (
        lambda at: (at / "adapter_config.json").write_text("{}"), "holds an adapter, which would be left out"),
    "no architecture": (lambda at: configure(at, architectures=3), "The architecture in "),
    "no text": (
        lambda at: (at / "config.json").write_text(""), "is no model's configuration: It is not JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED, ids=joined)
def test_a_damaged_or_unusual_folder_is_one_sentence(folder, tmp_path, capfd, name):
    damage, says = DAMAGED[name]
    mine = shutil.copytree(folder, tmp_path / "mine")
    damage(mine)
    assert main(["check", str(mine), "--no-progress"]) == 2
    said = capfd.readouterr().err
    assert said.startswith("packlib: ") and str(mine) in said and says in said and said.count("\n") == 1


@pytest.mark.parametrize(
    "changes", [{"tie_word_embeddings": True}, {"eos_token_id": [2, 3]}, {"time_step_limit": [0.0, float("inf")]}]
)
def test_tied_weights_several_ends_and_infinity_are_no_damage(folder, tmp_path, changes):
    mine = shutil.copytree(folder, tmp_path / "mine")
    if "tie_word_embeddings" in changes:
        weigh(mine, lambda tensors: {name: x for name, x in tensors.items() if name != "lm_head.weight"})
    configure(mine, **changes)
    assert main(["check", str(mine), "--no-progress"]) == 0


def test_a_folder_is_checked_in_padding_free_batches(here, capsys):
    for name, model in (("llama", llama(use_cache=True)), ("bert", bert())):
        model.save_pretrained(here / name)
    assert main(["check", "llama", "--no-progress"]) == 0
    assert main(["check", "bert", "--no-progress", "--json"]) == 1
    assert "no document mask" in capsys.readouterr().out
    assert main(["check", "llama", "--collate", "my_training.py:collate", "--no-progress"]) == 1
    assert "all ones" in capsys.readouterr().out


def test_what_is_cut_is_said_and_keeps_the_last_token():
    model, collate, rows = today.RIGHT["the cut keeps the end"]()
    found = check_packing(model, collate, rows)
    assert found.exact
    assert "Of 5 sequences 5 were cut to 300 tokens, the first 299 and the last" in found["tokens"].evidence
    whole = check_packing(model, collate, rows, max_tokens=400)
    assert whole.exact and "cut" not in repr(whole)
    longer = check_packing(llama(), FLAT, [*ROWS, {"input_ids": today.long(900), "labels": today.long(900)}])
    assert longer.exact and "Of 7 sequences 1 were cut to 300 tokens" in longer["tokens"].evidence


@pytest.mark.parametrize("fault", [None, "attention"])
def test_arrays_are_cut_as_lists_are(fault):
    rows = [{name: np.asarray(values) for name, values in row.items()} for row in sequences()]
    found = check_packing(Tiny("attention", fault=fault), dense(**SEGMENTS), rows, max_tokens=12)
    assert found.exact is (fault is None) and "were cut to 12 tokens" in found["tokens"].evidence


def test_a_refusal_of_what_is_cut_is_tried_again_uncut():
    model, _, rows = today.RIGHT["a column that a cut would make wrong"]()
    assert check_packing(model, today.prompts_by_length, rows).exact
    with pytest.raises(ValueError, match=r"collate failed with a list of 3 .* Detail: AssertionError"):
        check_packing(model, today.prompts_by_length, [{**row, "length": 1} for row in rows])


def test_checkpointing_that_takes_no_gradients_of_parts_is_refused():
    model = llama()
    model.activation_checkpointing_enable({"use_reentrant": True})
    with pytest.raises(ValueError, match=r"so checkpoint with use_reentrant=False\. Detail: RuntimeError"):
        check_packing(model.train(), FLAT, ROWS)


@pytest.mark.parametrize("name", LOSS_MASKS)
def test_each_mask_of_the_loss_says_what_is_to_be_predicted(name):
    """In place of labels, which the collator makes of the mask, or of all tokens."""
    prompt = name == "prompt_mask"
    rows = [
        {"input_ids": row["input_ids"], name: [int((label == -100) == prompt) for label in row["labels"]]}
        for row in ROWS
    ]

    def right(some):
        kept = [[number != prompt for number in row[name]] for row in some]
        return dense()([
            {"input_ids": row["input_ids"], "labels": np.where(mask, row["input_ids"], -100).tolist()}
            for row, mask in zip(some, kept, strict=True)
        ])  # fmt: skip

    assert check_packing(llama(), right, rows).exact
    found = check_packing(llama(), lambda some: dense()([{"input_ids": row["input_ids"]} for row in some]), rows)
    assert found["labels"].verdict == "failed" and "prompt labels are lost" in found["labels"].cause
