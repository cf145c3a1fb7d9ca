"""The advice: decisions that others would make too, odd data, and refusals in one sentence."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.lengths import LengthHistogram, load
from packlib.packing import assign, plan
from packlib.tools.advice import advise, cut, fit_update
from packlib.tools.advice.memory import memory_size
from packlib.tools.advice.page import page
from packlib.training import Recipe

RNG = np.random.default_rng(0)
CHATS = np.minimum(RNG.lognormal(6, 0.9, 3000).astype(int) + 1, 6000)


def of(lengths, max_length=None):
    return LengthHistogram.from_lengths(lengths, max_length)


# What is cut


def test_a_data_set_is_cut_from_its_whole_lengths():
    found = advise("docstrings", 256, keep_max_length=True)
    rows = [line.split(",") for line in open("data/lengths/docstrings.csv").read().splitlines()[1:]]
    longer = {int(length): int(count) for length, count in rows if int(length) > 256}
    lost = sum((length - 256) * count for length, count in longer.items())
    assert found.whole.num_tokens - found.histogram.num_tokens == lost
    assert found.histogram.truncated == sum(longer.values())


# The decisions


def test_the_row_length_of_now_can_be_kept():
    kept = advise([90] * 500 + [1250] * 500, 2048, keep_max_length=True)
    assert kept.row_length == 2048 and kept.decisions[0].reason == "It was to be kept."
    assert kept.decisions[0].runner_up == "1,280, with 33.0 % fewer slots for a token."


def test_a_bad_plan_of_todays_rows_speaks_for_no_other_length():
    lengths = [9, 10, 11, 12] * 30  # lpfhp makes 45 packs of 32 where 40 are enough
    assert plan(of(lengths, 32), method="lpfhp").num_packs * 32 > 1.02 * 64 * advise(lengths, 64).plan.num_packs
    assert advise(lengths, 32).row_length == 32 and advise(lengths, 32).plan.num_packs == 40


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
    assert found.plan.num_packs == exact.num_packs == found.plan.lower_bound
    assert found.plan.lower_bound > plan(found.histogram, method="lpfhp").lower_bound
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
    "just over half": ([33] * 4000, 64, False),
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
    assert not any("as many slots than" in one.runner_up or ": 0 (" in one.reason for one in found.decisions)
    assert not found.decisions[4].runner_up.startswith("0 updates")
    if name == "a row that holds many updates":
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


SOURCE = np.random.default_rng(0).geometric(0.01, 5000)
FEW = np.minimum(SOURCE, 333) + 400 * (np.arange(5000) < 3)
PILES = {  # lengths, and at which of them sequences look cut
    "at the longest": (np.minimum(SOURCE, 200), 200),
    "below a few that are longer": (FEW, 333),
    "of a half, at a limit": (np.where(np.arange(5000) % 2, np.minimum(SOURCE, 256), SOURCE), 256),
}


@pytest.mark.parametrize("name", PILES)
def test_lengths_that_pile_up_look_cut(name):
    lengths, limit = PILES[name]
    found, count = advise(lengths, 2048, source=SOURCE), int((lengths == limit).sum())
    assert found.piled_up == (limit, count)
    suspected = f"{count} sequences ({count / 50:.1f} %) have exactly {limit} tokens"
    assert suspected in advise(lengths, 2048).decisions[-1].reason
    longer, left = (int((some > limit).sum()) for some in (SOURCE, lengths))
    assert (found.upstream.overlong, found.upstream.left) == (longer, left)
    assert found.upstream.lost == SOURCE.sum() - lengths.sum()
    said, packs = found.decisions[-1].reason, found.upstream.packs
    assert f"In the source, {longer} sequences" in said and f"in the data {left}. It has 5,000 sequences" in said
    missing = f"({100 * found.upstream.lost / SOURCE.sum():.1f} %) fewer. All tokens of the source take"
    assert missing in said and f" packs, {packs:,}, and its longest sequence a row of {max(SOURCE):,}." in said
    assert SOURCE.sum() <= packs * found.row_length < 1.01 * SOURCE.sum() + found.row_length
    assert "more sequences longer than" in advise(lengths, 2048, source=lengths).decisions[-1].reason


def test_other_lengths_do_not_look_cut():
    for lengths in (
        SOURCE[SOURCE <= 200],
        [60, 4] * 500,
        np.concatenate([SOURCE, [37] * 600]),  # many texts of one length are no limit
        (SOURCE + 63) // 64 * 64,  # padded
        of(SOURCE).with_max_length(200, "truncate"),  # these are known to be cut
    ):
        found = advise(lengths, 2048 if isinstance(lengths, np.ndarray) else 200)
        assert found.piled_up[1] == 0 and "exactly" not in found.decisions[-1].reason


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


def test_the_memory_bounds_the_micro_batch_and_is_said():
    small, large = (advise(CHATS, 4096, model="0.5B", memory=room) for room in ("24GB", "80GB"))
    assert small.update.most < large.update.most and small.fit.recompute and not large.fit.recompute
    for found in (small, large):
        taken = [
            found.shape.memory(found.fit.rows + more, found.row_length, recompute=found.fit.recompute).total
            for more in (0, 1)
        ]
        assert taken[0] <= 0.9 * found.fit.room < taken[1] and found.update.after.micro_batch <= found.fit.rows
        assert found.memory.total <= taken[0] and found.fit.shards == 1
        assert f"of {found.fit.room / 1e9:.1f} GB" in found.decisions[3].reason
    none = advise([50_000] * 9, 131_072, model="7B", memory="80GB")
    assert none.decisions[3].choice == "Not even one pack fits" and none.update.most == 1
    longest = none.fit.longest
    assert f"at most {longest:,} tokens" in none.decisions[3].runner_up and "several share a row" in page(none)
    for tokens, fits in ((longest, True), (longest + 8, False)):
        assert (none.shape.memory(1, tokens, shards=10**9, recompute=True).total <= 0.9 * 80e9) == fits
    shared = advise(CHATS, 4096, model="7B", memory="80GB")
    assert shared.update.after.replicas == 2 and "shared by the 2 devices" in shared.decisions[3].reason
    assert shared.shape.memory(1, shared.row_length, recompute=True).total > 0.9 * 80e9
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
    assert not short.skips and 'attention = "sdpa"\n' in short.code["Model"]
    assert "FLOP" in long.notes[0] and "dense mask" in short.notes[0]


@pytest.mark.parametrize(("says", "options"), [
    ("max_length must be from 1 to ", {"max_length": 0}),
    ("batch_size must be at least 1, not 0.", {"batch_size": 0}),
    ("today must be 'random', 'sorted', 'fixed' or 'packed', not 'ordered'", {"today": "ordered"}),
    ("overlong must be 'truncate', 'drop' or 'split', not 'error'", {"overlong": "error"}),
    ("memory '80GB' needs a model", {"memory": "80GB"}),
    ("memory must be a number with MB, GB, TB, GiB, not '80'.", {"memory": "80", "model": "7B"}),
    ('memory must be text such as "80GB", not 80.', {"memory": 80, "model": "7B"}),
    ("model must be '110M', '340M'", {"model": "6B"}),
    ("max_sequences_per_pack must be at least 1, not 0.", {"max_sequences_per_pack": 0}),
    ("keep_max_length must be True or False, not 1.", {"keep_max_length": 1}),
    ("ranks must be from 1 to 65536, not 0", {"ranks": 0}),
    ("is packed already, with factor 2", {"recipe": Recipe(8, 1e-3, 100, packing_factor=2.0)}),
    ("batch_size and ranks must be left out where a recipe", {"recipe": Recipe(8, 1e-3, 100), "batch_size": 9}),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_one_sentence(says, options):
    with pytest.raises((TypeError, ValueError)) as raised:
        advise([3, 5, 8], **options)
    assert says in str(raised.value)


def test_memory_is_read_with_its_unit():
    assert (memory_size("80GB"), memory_size("1.5 gib"), memory_size(" 512MB ")) == (80e9, 1.5 * 2**30, 512e6)
