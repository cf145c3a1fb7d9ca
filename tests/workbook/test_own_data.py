"""Notebook 12 explains any data in sentences that hold for it: each is compared with what NumPy says of the lengths."""

import re

import numpy as np
import pytest
from test_other_parameters import PLURAL_OF_ONE, run_here
from test_other_parameters import shell as shell  # a fixture

from packbook.parameters import ParameterError, check_values
from packbook.results import meanings
from packlib.lengths import load

NAME = "12_your_dataset"
RNG = np.random.default_rng(0)
NORMAL = RNG.lognormal(6, 1.2, 3000).astype(int) + 1
CASES = {  # lengths, and how they are trained on now
    "cut at 512": (np.minimum(RNG.lognormal(6.5, 1, 3000).astype(int) + 1, 512), {"max_length": 512}),
    "two humps": (np.r_[RNG.integers(30, 60, 1000), RNG.integers(950, 1050, 1100)], {"max_length": 2048}),
    "all equal": (np.full(1000, 300), {"max_length": 512, "today": "maximum"}),
    "as long as rows": (np.full(500, 64), {"max_length": 64, "today": "sorted"}),
    "chats, split": (RNG.lognormal(6, 1, 2000).astype(int) + 1, {"max_length": 512, "overlong": "split"}),
    "dropped": (NORMAL, {"max_length": 256, "overlong": "drop"}),
    "one by one": (NORMAL, {"max_length": 2048, "batch_size": 1}),
    "packed today": (NORMAL, {"max_length": 2048, "today": "packed", "overlong": "truncate"}),
    "two in a pack": (RNG.integers(5, 80, 2000), {"max_length": 512, "max_sequences_per_pack": 2, "today": "sorted"}),
    "one sequence": (np.array([7]), {"max_length": 16}),
    "a short last batch": (NORMAL[:33], {"max_length": 2048, "today": "maximum"}),
    "packs take more": (RNG.integers(100, 384, 3000), {"max_length": 384, "batch_size": 16, "today": "sorted"}),
    "short, one by one": (RNG.integers(1, 10, 2000), {"max_length": 9, "batch_size": 1, "today": "buckets"}),
    "a trace of chats": (load("azure-chats", 1 << 17).expand(), {"max_length": 4096}),
    "a trace of code": (load("azure-code", 1 << 17).expand(), {"max_length": 2048, "overlong": "drop"}),
}


def cut(lengths, row, rule):
    """The lengths after the rule for longer sequences, one by one."""
    if rule == "drop":
        return lengths[lengths <= row]
    if rule == "truncate":
        return np.minimum(lengths, row)
    pieces = [[row] * (n // row) + [n % row] * (n % row > 0) for n in lengths.tolist()]
    return np.array([piece for one in pieces for piece in one])


def slots_today(lengths, row, today, size):
    """Count the slots of one pass, batch by batch; for random batches return the mean over 40 orders."""
    if today == "maximum":
        return len(lengths) * row
    orders = [np.sort(lengths)] if today == "sorted" else [RNG.permutation(lengths) for _ in range(40)]
    return np.mean(
        [sum(len(batch) * batch.max() for batch in np.split(order, range(size, len(order), size))) for order in orders]
    )


@pytest.fixture
def told(request, shell, tmp_path, monkeypatch):
    """Run the notebook on the lengths and parameters of a case.

    It gives the lengths after the rule for longer sequences, the parameters, the reasons of the notebook's answers,
    its texts, and the lengths as they were.
    """
    lengths, given = CASES[request.param]
    np.savetxt(tmp_path / "own.csv", lengths, "%d")
    monkeypatch.chdir(tmp_path)
    values = check_values(
        NAME, {"dataset": "own.csv", "overlong": "split", "today": "random", "batch_size": 32} | given
    )
    notebook = run_here(NAME, values, shell)
    whys = {one["why"]: one for one in meanings(notebook, "reveal")}
    texts = [
        o.get("text") or o.get("data", {}).get("text/plain", "") for c in notebook.cells for o in c.get("outputs", ())
    ]
    return cut(lengths, values["max_length"], values["overlong"]), values, list(whys), texts, lengths


@pytest.mark.slow
@pytest.mark.parametrize("told", CASES, indirect=True)
def test_every_sentence_holds_for_the_data(told):
    lengths, values, (padding, longer, grows, fewer), texts, uncut = told
    row, today, size = values["max_length"], values["today"], values["batch_size"]
    mean, median = lengths.mean(), np.sort(lengths)[(len(lengths) - 1) // 2]
    assert f"have {mean:,.1f} tokens on average in rows of length {row:,}" in padding
    side = "about the same as" if abs(mean - median) <= 0.05 * median else "above" if mean > median else "below"
    assert f"The mean is {side} the median, {median:,}" in padding
    counted = {"split": "count as their pieces", "truncate": "count as they are cut", "drop": "are left out"}
    assert (f"Sequences longer than a row {counted[values['overlong']]}." in padding) == (uncut.max() > row)

    now, then = map(float, re.search(r"takes ([\d.]+) slots now and ([\d.]+)", longer).groups())
    full, longer_full = map(float, re.search(r"are ([\d.]+) % full now, and ([\d.]+) % then", longer).groups())
    assert [full, longer_full] == pytest.approx([100 / now, 100 / then], abs=0.7)
    assert ("can save next to nothing" in longer) == (full >= 98) and (full < 98 or then >= 0.995)

    held, each = map(
        float, re.search(r"holds ([\d.,]+) sequences .* mean is ([\d.,]+) tokens", grows.replace(",", "")).groups()
    )
    assert each == pytest.approx(mean, abs=0.06) and held <= row / mean + 0.06

    words = {
        "packed": "are packs already",
        "maximum": "takes a row of full length",
        "sorted": "Sorted batches hold",
        "random": f"longest of its {min(size, len(lengths))} sequences",
    }
    said = (
        "holds one sequence"
        if min(size, len(lengths)) == 1 and today in ("random", "sorted", "buckets")
        else words[today]
    )
    assert said in fewer and sum(phrase in fewer for phrase in [*words.values(), "holds one sequence"]) == 1
    if share := re.search(r"([\d.]+) % of (?:the|their) slots hold tokens|and ([\d.]+) % of their slots", fewer):
        share = float(next(filter(None, share.groups())))
        if today != "packed":
            expected = 100 * lengths.sum() / slots_today(lengths, row, today, size)
            assert share == pytest.approx(expected, rel=0.02)

    (bill,) = [text for text in texts if text.startswith("one pass ")]
    mine, advised = [float(value.replace(",", "")) for value in re.search(r"million slots.*", bill)[0].split()[-2:]]
    (points,) = [text for text in texts if text.startswith("- Slots: ")]
    if abs(mine - advised) > 0.03 * advised:
        assert "slots than the advised ones" in points and ("more" if mine > advised else "fewer") in points
    if advised > 1 and abs(mine - advised) < 0.01 * advised:  # the bill has two decimals of a million
        assert "as many slots as the advised ones" in points
    rows = {line.split("  ")[0]: line.split()[-3:] for line in bill.splitlines()[1:]}
    before, after = (float(value.replace(",", "")) for value in rows["sequences per update"][:2])
    if before > 50 and abs(after / before - 1) > 0.03:
        assert f"have {after / before:.1f}"[:-1] in points
    packs = int(rows["rows"][1].replace(",", ""))
    in_today = packs if today == "packed" else len(lengths)
    widest = row if today in ("maximum", "packed") else lengths.max()
    largest, own_largest = min(size, in_today) * widest, min(size, packs) * row
    assert ("so it may not fit" in points) == (own_largest > 1.02 * largest), (own_largest, largest)
    (bars,) = [text for text in texts if text.startswith("Slots of one pass: ")]
    saved = re.search(r"Your packs take (.*) slots (?:than|as) today's batches", bars)[1]
    assert ("save less than 2 %" in points) == saved.startswith("as many")
    if saved.endswith("more"):
        assert f"Your packs take {saved} slots than today's batches, so they are not worth a change." in points
    assert size > 1 or "Sorted batches" not in points, "a batch of one has nothing to sort"
    assert not [text for text in texts if PLURAL_OF_ONE.search(text)], "one is no plural"
    (spread,) = [
        text for text in texts if (" sequence" in text and ": half of them have " in text) or ": all have " in text
    ]
    assert (": all have " in spread) == (uncut.min() == uncut.max())
    assert ("none is longer" in spread) == (uncut.max() <= row) and " 0.00 % are longer" not in spread
    assert ("so nothing is padding" in padding) == bool((lengths == row).all())
    assert "(0.0 % " not in points, "a difference that rounds to nothing is none"

    beyond = 1 - lengths.sum() / uncut.sum()
    assert ("If you split long sequences, none is." in points) == (beyond > 0.02)
    sorted_slots = slots_today(lengths, row, "sorted", size)
    own = advised * 1e6
    if size > 1 and own > 1e5 and sorted_slots > 1.03 * own:
        assert re.search(r"Sorted batches of [\d,]+ take [\d.,]+ % more slots than the advised packs", points)


@pytest.mark.parametrize(
    ("cell", "answer", "sentence"),
    [
        ("decide_row", 0, "my_row must be from 1 to 1048576, not 0."),
        ("decide_row", "512", "my_row must be a whole number"),
        (
            "decide_method",
            "lphfp",
            "my_method must be 'next_fit', 'spfhp' or 'lpfhp', not 'lphfp': did you mean 'lpfhp'",
        ),
        ("decide_update", 8, "my_update must be a micro batch and an accumulation, such as 4, 8, not 8"),
        ("decide_update", (8, 0), "my_update must be from 1 to "),
    ],
)
def test_a_decision_that_cannot_be_carried_out_gets_one_sentence(cell, answer, sentence):
    from packbook.n12_your_dataset import runs
    from packlib.lengths import LengthHistogram

    whole = LengthHistogram.from_lengths([5, 9])
    others = {"decide_row": (9, whole, "split"), "decide_method": (), "decide_update": ((32, 8),)}
    with pytest.raises(ParameterError) as raised:
        getattr(runs, cell)(answer, *others[cell])
    assert str(raised.value).startswith(sentence) and "\n" not in str(raised.value)


def test_dots_go_on_with_what_is_done_now():
    from packbook.n12_your_dataset import runs
    from packlib.lengths import LengthHistogram

    whole = LengthHistogram.from_lengths([5, 9])
    assert runs.decide_row(..., 9, whole, "split") == 9 and runs.decide_row(7, 9, whole, "split") == 7
    assert runs.decide_method(...) == "next_fit" and runs.decide_method("lpfhp") == "lpfhp"
    assert runs.decide_update((..., ...), (32, 8)) == (32, 8) and runs.decide_update((4, 2), (32, 8)) == (4, 2)
