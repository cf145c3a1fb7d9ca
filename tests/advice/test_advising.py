"""The advice: decisions that others would make too, odd data, and refusals in one sentence."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.advice import advise, cut, fit_update
from packlib.advice.advising import fitting, memory_size
from packlib.advice.memory import model_shape
from packlib.advice.page import page
from packlib.lengths import LengthHistogram, load
from packlib.packing import assign, plan
from packlib.packing.documents import split
from packlib.training import Recipe
from packlib.workbook.results import keep, result
from packlib.workbook.tables import Points, Table

RNG = np.random.default_rng(0)
BIMODAL = [90] * 500 + [1250] * 500
CHATS = np.minimum(RNG.lognormal(6, 0.9, 3000).astype(int) + 1, 6000)


def of(lengths, max_length=None):
    return LengthHistogram.from_lengths(lengths, max_length)


# What is cut


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(1, 40))
def test_sequences_are_split_as_documents_are(lengths, top):
    pieces = split(np.array(lengths), top)[2]
    assert cut(of(lengths), top, "split").expand().tolist() == sorted(pieces.tolist())


def test_a_data_set_is_cut_from_its_whole_lengths():
    found = advise("docstrings", 256, keep_max_length=True)
    rows = [line.split(",") for line in open("data/lengths/docstrings.csv").read().splitlines()[1:]]
    lost = sum((int(length) - 256) * int(count) for length, count in rows if int(length) > 256)
    assert found.whole.num_tokens - found.histogram.num_tokens == lost
    assert found.histogram.truncated == sum(int(count) for length, count in rows if int(length) > 256)


# The decisions


def test_another_row_length_is_taken_where_it_saves_slots():
    found, kept = advise(BIMODAL, 2048), advise(BIMODAL, 2048, keep_max_length=True)
    assert found.row_length == 1280 and found.plan.num_packs == 536  # 500 with a long one, 36 with 14 of 90
    assert kept.row_length == 2048 and kept.decisions[0].reason == "It was to be kept."
    assert kept.decisions[0].runner_up == "1,280, with 33.0 % fewer slots for a token."
    assert advise(CHATS, 4096).row_length == 4096


def test_there_is_no_depth_limit_but_for_a_pooler_or_on_demand():
    lengths = RNG.integers(5, 40, 400)
    free, bert = advise(lengths, 64), advise(lengths, 64, model="110M", keep_max_length=True)
    assert not free.depths and free.plan.max_sequences_per_pack is None
    for trial in bert.depths:
        exact = plan(bert.histogram, method="optimal", max_sequences_per_pack=trial.depth).num_packs
        assert trial.bound <= exact <= trial.packs
    assert bert.plan.deepest <= bert.plan.max_sequences_per_pack <= bert.depths[-1].depth
    assert bert.plan.num_packs <= 1.006 * plan(bert.histogram, method="optimal").num_packs
    assert "smallest depth" in bert.decisions[1].reason
    two = advise(lengths, 64, max_sequences_per_pack=2)
    assert two.plan.deepest == 2 == two.depths[-1].depth and two.decisions[1].choice.endswith("2 sequences in a pack")


def test_what_the_search_proves_of_a_plan_is_said():
    found = advise([33] * 1200 + [300] * 900 + [700] * 600, 1024, keep_max_length=True)
    exact = plan(found.histogram, method="optimal")
    assert (
        found.plan.num_packs
        == exact.num_packs
        == found.plan.lower_bound
        > plan(found.histogram, method="lpfhp").lower_bound
    )
    assert found.decisions[1].reason.endswith("full: no packing has fewer.")


def test_today_may_be_packed_already():
    found = advise(CHATS, 4096, today="packed", batch_size=4, seed=3)
    made = plan(cut(of(CHATS), 4096), method="next_fit", seed=3)
    assert found.today.rows == made.num_packs and found.today.packing_factor == made.packing_factor
    assert found.times_fewer == pytest.approx(made.num_packs / found.plan.num_packs)
    assert found.update.before.sequences_per_update == pytest.approx(32 * made.packing_factor)


EDGES = {  # lengths, maximum, and whether there is something to gain
    "one sequence": ([5], 512, False),
    "all of length 1": ([1] * 700, 512, False),
    "rows of 1": ([1] * 9, 1, False),
    "all at the maximum": ([64] * 6400, 64, False),
    "just over half": ([33] * 4000, 64, False),
    "two lengths": ([60, 4] * 4000, 64, True),
    "three lengths": ([5, 9, 700], 700, True),
    "a row that holds many updates": ([50, 60] * 2000, 100_000, True),
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("overlong", ["truncate", "drop", "split"])
def test_odd_data_gets_sound_advice(name, overlong):
    lengths, top, gain = EDGES[name]
    found = advise(lengths, top, overlong=overlong)
    assert found.decisions[2].choice.startswith("Nothing to gain") == (not gain)
    json.loads(found.to_json())
    for text in (*(text for one in found.decisions for text in one[2:]), *found.notes):
        assert text.endswith(".") and ".." not in text and "1 sequences" not in text and "1 packs" not in text
    assert all(math.isfinite(value) for value in found.numbers.values())
    assert not any("as many slots than" in one.runner_up for one in found.decisions)
    assert not any(": 0 (" in one.reason for one in found.decisions)
    assert not found.decisions[4].runner_up.startswith("0 updates")


def test_where_a_pack_holds_more_than_an_update_a_shorter_row_is_named():
    found = advise([50, 60] * 2000, 100_000)
    assert found.update.after.global_batch == 1 and not found.update.exact
    assert found.decisions[3].runner_up.startswith(f"Shorter rows: one of {256 * 55:,} tokens holds about")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=60),
    st.integers(1, 200),
    st.sampled_from(["truncate", "split"]),
    st.sampled_from(["random", "sorted", "fixed", "packed"]),
    st.integers(1, 70),
)
def test_any_lengths_get_a_plan_of_all_of_them(lengths, top, overlong, today, size):
    found = advise(lengths, top, overlong=overlong, today=today, batch_size=size)
    kept = np.minimum(lengths, found.row_length) if overlong == "truncate" else found.histogram.expand()
    assert len(assign(found.plan, kept)) == found.plan.num_packs
    assert sum(kept) + (found.chosen.tokens_cut if overlong == "truncate" else 0) == sum(lengths)
    assert found.chosen.tokens_cut <= found.now.tokens_cut
    assert 1 <= found.update.after.micro_batch <= max(1, found.update.most)


def test_lengths_that_pile_up_at_the_longest_look_cut():
    drawn = np.random.default_rng(0).geometric(0.01, 5000)
    suspected = advise(np.minimum(drawn, 200), 512)
    count = int((drawn >= 200).sum())
    assert f"{count} sequences ({count / 50:.1f} %) have exactly 200 tokens" in suspected.decisions[-1].reason
    for lengths in (drawn[drawn <= 200], [60, 4] * 500):
        assert "exactly" not in advise(lengths, 512).decisions[-1].reason
    assert advise(of(drawn).with_max_length(200, "truncate"), 200).piled_up[1] == 0, "these are known to be cut"


def test_a_pile_below_the_longest_looks_cut_where_it_is_a_limit():
    source = np.random.default_rng(0).geometric(0.01, 5000)
    few, half = np.minimum(source, 333), np.where(np.arange(5000) % 2, np.minimum(source, 256), source)
    few[:3] += 400
    for lengths, limit in ((few, 333), (half, 256)):
        found = advise(lengths, 2048, source=source)
        count = int((lengths == limit).sum())
        assert found.piled_up == (limit, count)
        assert f"{count} sequences" in advise(lengths, 2048).decisions[-1].reason
        longer, left = (int((some > limit).sum()) for some in (source, lengths))
        assert (found.upstream.overlong, found.upstream.left) == (longer, left)
        assert found.upstream.lost == source.sum() - lengths.sum()
        said = found.decisions[-1].reason
        assert f"In the source, {longer} sequences" in said and f"in the data {left}. It has" in said
        assert "more sequences longer than" in advise(lengths, 2048, source=lengths).decisions[-1].reason
    template = np.concatenate([source, [37] * 600])  # many texts of one length are no limit
    assert advise(template, 2048).piled_up == (0, 0)
    padded = (source + 63) // 64 * 64
    assert advise(padded, 2048).piled_up == (0, 0)


# The update and the memory


@settings(deadline=None)
@given(
    st.integers(1, 64), st.integers(1, 16), st.integers(1, 4), st.floats(1, 40), st.integers(1, 40),
    st.sampled_from(["adamw", "lamb"]),
)  # fmt: skip
def test_the_update_is_the_largest_micro_batch_within_two_percent(size, steps, devices, factor, most, optimizer):
    before = Recipe(size, 1e-3, 10**6, gradient_accumulation_steps=steps, replicas=devices, optimizer=optimizer)
    found = fit_update(before, factor, most)
    wanted = size * steps * devices
    off = {
        (rows, count): rows * count * devices * factor / wanted - 1
        for rows in range(1, most + 1)
        for count in range(1, size * steps + 2)
    }
    chosen = (found.after.micro_batch, found.after.gradient_accumulation_steps)
    near = [pair for pair, share in off.items() if abs(share) <= 0.02]
    assert found.off == pytest.approx(off[chosen], abs=1e-8)
    if near:
        assert chosen[0] == max(rows for rows, _ in near) and found.exact
    else:
        assert abs(off[chosen]) == pytest.approx(min(map(abs, off.values())))
    betas = [0.9 ** (1 + found.off), 0.999 ** (1 + found.off)] if not near and optimizer == "adamw" else [0.9, 0.999]
    assert found.after.betas == pytest.approx(betas) and found.after.learning_rate == 1e-3
    assert found.after.replicas == devices and found.after.packing_factor == factor
    enough = math.ceil(wanted / devices / factor)  # packs of a device in an update
    if larger := [abs(off[pair]) for pair in off if chosen[0] < pair[0] <= enough]:
        assert found.runner_up[0] > chosen[0] and abs(off[found.runner_up]) == pytest.approx(min(larger))


def test_what_fits_into_the_memory_is_taken_and_one_more_does_not_fit():
    shape = model_shape("0.5B")
    fit = fitting(shape, 2048, 80e9, 1)
    assert not fit.recompute and fit.shards == 1
    assert shape.memory(fit.rows, 2048).total <= 0.9 * 80e9 < shape.memory(fit.rows + 1, 2048).total
    large = fitting(model_shape("7B"), 4096, 80e9, 1)
    assert large.shards == 2 and large.recompute and large.rows >= 1
    assert model_shape("7B").memory(1, 4096, recompute=True).total > 0.9 * 80e9
    assert fitting(model_shape("7B"), 1 << 20, 80e9, 8).rows == 0


def test_the_memory_bounds_the_micro_batch_and_is_said():
    small, large = (advise(CHATS, 4096, model="0.5B", memory=room) for room in ("24GB", "80GB"))
    assert small.update.most < large.update.most
    for found in (small, large):
        assert found.memory.total <= 0.9 * found.fit.room and found.update.after.micro_batch <= found.fit.rows
        assert f"of {found.fit.room / 1e9:.1f} GB" in found.decisions[3].reason
    none = advise([50_000] * 9, 131_072, model="7B", memory="80GB")
    assert none.decisions[3].choice == "Not even one pack fits" and none.update.most == 1
    longest = none.fit.longest
    assert f"at most {longest:,} tokens" in none.decisions[3].runner_up and "several share a row" in page(none)
    for tokens, fits in ((longest, True), (longest + 8, False)):
        assert (none.shape.memory(1, tokens, shards=10**9, recompute=True).total <= 0.9 * 80e9) == fits
    shared = advise(CHATS, 4096, model="7B", memory="80GB")
    assert shared.update.after.replicas == 2 and "shared by the 2 devices" in shared.decisions[3].reason
    assert shared.decisions[3].choice.endswith("× 2 devices")
    assert "model.gradient_checkpointing_enable()" in shared.code["Model"] and "PyTorch loop" not in shared.code
    assert all("--num_processes 2 --use_fsdp" in text for text in list(shared.code.values())[2:])


def test_no_row_is_longer_than_the_positions_of_the_model():
    found = advise(RNG.integers(1, 300, 500), 512, model="110M")
    assert max(row.max_length for row in found.row_lengths) == 512
    beyond = advise([600, 20] * 50, 640, model="110M")
    assert "has 600 tokens, and the model only 512 positions" in " ".join(beyond.notes)


def test_a_recipe_of_ones_own_is_adjusted():
    mine = Recipe(8, 1e-3, 10_000, gradient_accumulation_steps=6, max_length=128)
    found = advise(load("wordnet-pairs", 64), recipe=mine)
    assert replace(found.update.before, max_length=128) == mine and not found.is_example
    assert "an example" not in found.decisions[3].reason and found.today.batch_size == 8


def test_attention_that_skips_is_advised_where_it_saves_work():
    long, short = advise([900] * 4000, 8192), advise([16] * 900, 128)
    assert long.skips and 'attention = "flash_attention_2" if' in long.code["Model"]
    assert not short.skips and 'attention = "sdpa" if' in short.code["Model"]
    assert "FLOP" in long.notes[0] and "dense mask" in short.notes[0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_length": 0}, "max_length must be from 1 to "),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0."),
        ({"today": "ordered"}, "today must be 'random', 'sorted', 'fixed' or 'packed', not 'ordered'"),
        ({"overlong": "error"}, "overlong must be 'truncate', 'drop' or 'split', not 'error'"),
        ({"memory": "80GB"}, "memory '80GB' needs a model"),
        ({"memory": "80", "model": "7B"}, "memory must be a number with MB, GB, TB, GiB, not '80'."),
        ({"memory": 80, "model": "7B"}, 'memory must be text such as "80GB", not 80.'),
        ({"model": "6B"}, "model must be '110M', '340M'"),
        ({"max_sequences_per_pack": 0}, "max_sequences_per_pack must be at least 1, not 0."),
        ({"keep_max_length": 1}, "keep_max_length must be True or False, not 1."),
        ({"recipe": Recipe(8, 1e-3, 100, packing_factor=2.0)}, "is packed already, with factor 2"),
        ({"recipe": Recipe(8, 1e-3, 100), "batch_size": 9}, "batch_size and ranks must be left out where a recipe"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(options, says):
    with pytest.raises((TypeError, ValueError)) as raised:
        advise([3, 5, 8], **options)
    assert says in str(raised.value)


def test_memory_is_read_with_its_unit():
    assert (memory_size("80GB"), memory_size("1.5 gib"), memory_size(" 512MB ")) == (80e9, 1.5 * 2**30, 512e6)


def test_the_same_lengths_give_the_same_advice_whatever_their_order():
    one, other = advise(CHATS, 4096), advise(np.random.default_rng(1).permutation(CHATS), 4096)
    assert one.to_json() == other.to_json() and one.plan.to_json() == other.plan.to_json()


# What notebooks show of it


def test_a_table_reads_as_text_and_as_html():
    table = Table(("name", "packs", "why"), [("a<b", 12345, ""), ("c", None, "too many")])
    assert repr(table) == "name   packs  why\na<b   12,345\nc             too many"
    page = table._repr_html_()
    assert '<td style="text-align:right">12,345</td>' in page and "a&lt;b" in page
    assert repr(Points(["One.", "Two."])) == "- One.\n- Two." and "<li>One.</li>" in Points(["One."])._repr_html_()


def test_only_numbers_words_and_none_are_results():
    with pytest.raises(TypeError, match="must be a number, a text or None, not list"):
        result("depths", [1, 2])
    with pytest.raises(ValueError, match="must be finite, not nan"):
        result("gap", float("nan"))
    result("packs", np.int64(3))


def test_files_are_kept_only_under_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep("a.json", "{}")
    monkeypatch.setenv("PACKLIB_RESULTS", str(tmp_path / "out"))
    keep("b.json", "{}")
    assert [path.name for path in tmp_path.rglob("*.json")] == ["b.json"]


def test_a_bad_plan_of_todays_rows_speaks_for_no_other_length():
    lengths = [9, 10, 11, 12] * 30  # lpfhp makes 45 packs of 32 where 40 are enough
    assert plan(of(lengths, 32), method="lpfhp").num_packs * 32 > 1.02 * 64 * advise(lengths, 64).plan.num_packs
    assert advise(lengths, 32).row_length == 32 and advise(lengths, 32).plan.num_packs == 40
