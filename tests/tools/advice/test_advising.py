"""The advice: decisions that others would make too, odd data, and refusals in one sentence."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.lengths import LengthHistogram, load
from packlib.packing import plan
from packlib.tools.advice import Batch, advise
from packlib.tools.advice.memory import memory_size
from packlib.tools.advice.micro_batch import fit_update
from packlib.tools.advice.page import page
from packlib.tools.advice.sentences import _attention_note
from packlib.training import Recipe

RNG = np.random.default_rng(0)
CHATS = np.minimum(RNG.lognormal(6, 0.9, 3000).astype(int) + 1, 6000)


def about(found, subject):
    """The decision about something."""
    return next(one for one in found.decisions if one.about == subject)


def of(lengths, max_length=None):
    return LengthHistogram.from_lengths(lengths, max_length)


# What is cut


def test_a_data_set_is_cut_from_its_whole_lengths():
    found = advise("docstrings", 256, overlong="truncate", keep_max_length=True)
    rows = [line.split(",") for line in open("data/lengths/docstrings.csv").read().splitlines()[1:]]
    longer = {int(length): int(count) for length, count in rows if int(length) > 256}
    lost = sum((length - 256) * count for length, count in longer.items())
    assert found.whole.num_tokens - found.histogram.num_tokens == lost
    assert found.histogram.truncated == sum(longer.values())


# The decisions


def test_the_row_length_of_now_can_be_kept():
    kept = advise([90] * 500 + [1250] * 500, 2048, keep_max_length=True)
    assert kept.row_length == 2048
    assert about(kept, "Row length").reason == "You asked to keep them (--keep-max-length)."
    assert about(kept, "Row length").runner_up.startswith("2,504 tokens: ")  # for two of 1,250
    assert about(kept, "Row length").runner_up.endswith(" less work per token, and 34.2 % fewer slots.")


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
    assert "smallest depth" in about(bert, "Method").reason
    two = advise(lengths, 64, max_sequences_per_pack=2)
    assert two.plan.deepest == 2 == two.depths[-1].depth and about(two, "Method").choice.endswith(
        "2 sequences in a pack"
    )


def test_what_the_search_proves_of_a_plan_is_said():
    found = advise([33] * 1200 + [300] * 900 + [700] * 600, 1024, keep_max_length=True)
    exact = plan(found.histogram, method="optimal")
    assert found.plan.num_packs == exact.num_packs == found.plan.lower_bound
    assert found.plan.lower_bound > plan(found.histogram, method="lpfhp").lower_bound
    assert about(found, "Method").reason.endswith("full. This is the proven minimum.")


def test_today_may_be_packed_already():
    found = advise(CHATS, 4096, today="packed", batch_size=4, accumulation=8, overlong="truncate", seed=3)
    made = plan(of(CHATS).with_max_length(4096, "truncate"), method="next_fit", seed=3)
    assert found.today.rows == made.num_packs and found.today.packing_factor == made.packing_factor
    assert found.slots_ratio == pytest.approx(made.num_packs / found.plan.num_packs)
    assert found.update.before.sequences_per_update == pytest.approx(32 * made.packing_factor)


def test_packs_of_today_are_filled_in_a_random_order_since_lengths_have_none():
    ascending = advise(np.sort(CHATS), 4096, today="packed", overlong="truncate")
    assert ascending.today.slots == advise(CHATS, 4096, today="packed", overlong="truncate").today.slots
    assert "For one pass, packs filled in random order take" in about(ascending, "Your batches").reason


EDGES = {  # lengths, maximum, and whether there is something to gain
    "one sequence": ([5], 512, False),
    "all of length 1": ([1] * 700, 512, False),
    "rows of 1": ([1] * 9, 1, False),
    "just over half": ([33] * 4000, 64, False),
    "three lengths": ([5, 9, 700], 700, True),
    "one pack": ([5, 7, 3], 16, True),
    "a row that holds many updates": ([50, 60] * 2000, 100_000, True),
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("overlong", ["truncate", "drop", "split"])
def test_odd_data_gets_sound_advice(name, overlong):
    lengths, top, gain = EDGES[name]
    found = advise(lengths, top, overlong=overlong)
    assert (
        found.decisions[0].choice.startswith("Nothing to gain") == (not gain) and (len(found.decisions) == 1) != gain
    )
    json.loads(found.to_json())
    for text in (*(text for one in found.decisions for text in one[2:]), *found.notes):
        assert text.endswith((".", ". There is nothing to choose.")) and ".." not in text
        assert "1 sequences" not in text and "1 packs" not in text
        assert not re.search(
            r"(?<![\d,.])1 (pack|sequence|label|token|update)\b( of [\d,]+)? (take|have|are|were)\b", text
        )
    assert all(math.isfinite(value) for value in found.numbers.values())
    if name == "a row that holds many updates":
        known = advise(lengths, top, overlong=overlong, batch_size=32, accumulation=8)
        assert known.update.after.global_batch == 1 and not known.update.exact
        said = about(known, "Packs per update").runner_up
        assert said.startswith(f"Shorter rows: one of {256 * 55:,} tokens holds about")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=60),
    st.integers(1, 200),
    st.sampled_from(["truncate", "split"]),
    st.sampled_from(["maximum", "random", "sorted", "buckets", "megabatches", "packed"]),
    st.integers(1, 70),
)
def test_any_lengths_get_a_plan_of_all_of_them(lengths, top, overlong, today, size):
    found = advise(lengths, top, overlong=overlong, today=today, batch_size=size)
    assert found.update.after.global_batch <= found.plan.num_packs
    kept = np.minimum(lengths, found.row_length) if overlong == "truncate" else found.histogram.expand()
    assert len(found.plan.assign(kept)) == found.plan.num_packs
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
    assert suspected in about(advise(lengths, 2048), "Longer sequences").reason
    longer, left = (int((some > limit).sum()) for some in (SOURCE, lengths))
    assert (found.upstream.overlong, found.upstream.left) == (longer, left)
    assert found.upstream.lost == SOURCE.sum() - lengths.sum()
    said, packs = about(found, "Longer sequences").reason, found.upstream.packs
    assert f"In the source, {longer} sequences" in said and f"in the data {left}. It has 5,000 sequences" in said
    missing = f"({100 * found.upstream.lost / SOURCE.sum():.1f} %) fewer. All tokens of the source take"
    assert missing in said and f" packs, {packs:,}, and its longest sequence takes a row of {max(SOURCE):,}." in said
    assert SOURCE.sum() <= packs * found.row_length < 1.01 * SOURCE.sum() + found.row_length
    assert "more sequences longer than" in about(advise(lengths, 2048, source=lengths), "Longer sequences").reason


def test_other_lengths_do_not_look_cut():
    for lengths in (
        SOURCE[SOURCE <= 200],
        [60, 4] * 500,
        np.concatenate([SOURCE, [37] * 600]),  # many texts of one length are no limit
        (SOURCE + 63) // 64 * 64,  # padded
        of(SOURCE).with_max_length(200, "truncate"),  # these are known to be cut
    ):
        found = advise(lengths, 2048 if isinstance(lengths, np.ndarray) else 200)
        assert found.piled_up[1] == 0 and "exactly" not in repr(found)


# The update and the memory


@settings(deadline=None)
@given(
    st.integers(1, 64), st.integers(1, 16), st.integers(1, 4), st.floats(1, 40), st.integers(1, 40),
    st.integers(1, 500),
)  # fmt: skip
def test_the_update_is_the_largest_micro_batch_within_two_percent(size, steps, devices, factor, most, packs):
    before = Batch(size, steps, devices)
    found = fit_update(before, factor, most, packs=packs)
    wanted, each = size * steps * devices, max(1, packs // devices)
    off = {
        (rows, count): rows * count * devices * factor / wanted - 1
        for rows in range(1, most + 1)
        for count in range(1, size * steps + 2)
        if rows * count <= each
    }
    chosen = (found.after.micro_batch, found.after.gradient_accumulation_steps)
    near = [pair for pair, share in off.items() if abs(share) <= 0.02]
    assert found.off == pytest.approx(off[chosen], abs=1e-8) and found.all_packs == (wanted / devices / factor >= each)
    if near:
        assert chosen[0] == max(rows for rows, _ in near) and found.exact
    elif not found.all_packs:
        assert abs(off[chosen]) == pytest.approx(min(map(abs, off.values())))
    assert found.after.replicas == devices and found.after.packing_factor == factor


def test_rate_and_betas_change_for_much_only():
    """A recipe's betas change if an update differs by over 10 %, as one pack of many sequences does, and no rate."""
    lengths = [50, 60] * 2000
    for optimizer, betas in (("adamw", True), ("lamb", False)):
        mine = Recipe(16, 1e-3, 10_000, optimizer=optimizer)
        found = advise(lengths, 4096, recipe=mine, keep_max_length=True)
        after = found.packed_recipe
        assert found.update.off > 1 and (after.betas != mine.betas) == betas and after.learning_rate == 1e-3
        if betas:
            assert after.betas == pytest.approx([beta ** (1 + found.update.off) for beta in mine.betas])
    near = advise(lengths, 1024, recipe=Recipe(20, 1e-3, 10_000), keep_max_length=True)
    assert 0.02 < abs(near.update.off) < 0.1 and near.packed_recipe.betas == (0.9, 0.999)
    assert "so learning rate and betas stay" in about(near, "Packs per update").reason


def test_lengths_that_nobody_measured_are_called_so():
    assert any(
        note.startswith("The lengths are synthetic: count your own") for note in advise("log-normal", 512).notes
    )
    drawn = LengthHistogram.from_lengths(CHATS)
    rebuilt = LengthHistogram(drawn.counts, kind="reconstruction")
    assert any(note.startswith("The lengths are a reconstruction: ") for note in advise(rebuilt, 6000).notes)
    assert not any("The lengths are" in note for note in advise(CHATS, 6000).notes)


def test_nothing_is_invented():
    found = advise(CHATS, 4096)
    assert found.update is None and found.recipe is None and found.as_dict()["recipe"] is None
    factor = found.histogram.num_sequences / found.plan.num_packs
    assert about(found, "Packs per update").choice == f"Divide the sequences of today's update by {factor:.2f}"
    for code in list(found.code.values())[2:]:
        assert "lr=learning_rate" in code or "learning_rate=learning_rate" in code
        assert "betas" not in code.replace("your betas", "") and "adam_beta" not in code and "max_steps" not in code
        assert f"round(min(sequences_per_update / {factor:.2f}, len(packed)))" in code
    four = advise(CHATS, 4096, batch_size=4, epochs=3)
    assert four.update.before.sequences_per_update == 4 and "num_train_epochs=3" in four.code["transformers.Trainer"]
    assert f"3 epochs take {3 * four.updates:,} updates, {four.updates:,} each." in repr(four)
    eight = advise(CHATS, 4096, batch_size=4, accumulation=8, ranks=2)
    assert eight.update.before.sequences_per_update == 64


def test_there_are_no_more_packs_in_an_update_than_in_the_data():
    few = [700, 130, 512, 40, 900]
    found = advise(few, 1024, batch_size=32, accumulation=8)
    assert found.update.after.global_batch == found.plan.num_packs == 2 and found.updates == 1
    assert "256 sequences, and one pass over the data has 5: an update takes all packs" in repr(found)
    mine = advise(few, 1024, recipe=Recipe(32, 1e-3, 1000, gradient_accumulation_steps=8))
    assert mine.packed_recipe.betas == (0.9, 0.999) and "Learning rate and betas stay." in repr(mine)
    lonely = advise(few, 1024, batch_size=2, ranks=4)
    assert about(lonely, "Packs per update").choice == "The 2 packs for 4 devices: too few"


LONG = np.random.default_rng(3).lognormal(6, 1.3, 3000).astype(int) + 1


def test_a_loss_of_over_two_percent_is_decided_first_and_nothing_on_truncated_data():
    found, beyond = advise(LONG, 1024), int(np.maximum(LONG - 1024, 0).sum())
    first = found.decisions[0]
    assert first.about == "Longer sequences" and first.choice == "Split them into further pieces: no token is lost"
    assert f"{beyond:,} tokens ({100 * beyond / LONG.sum():.1f} %) are moved" in first.reason
    dropped = LONG[LONG > 1024].sum()
    assert f"Truncating them loses {100 * beyond / LONG.sum():.1f} % of the tokens." in first.runner_up
    assert f"Dropping them loses {100 * dropped / LONG.sum():.1f} % of the tokens." in first.runner_up
    assert found.histogram.num_tokens == LONG.sum() and 'overlong="split"' in found.code["Packs"]
    asked = advise(LONG, 1024, overlong="truncate").decisions[0]
    assert asked.choice.endswith("are lost: split longer sequences instead (--overlong split)")
    little = advise(np.minimum(LONG, 1030), 1024)
    assert [one.about for one in little.decisions].index("Longer sequences") == 2


def test_nothing_to_gain_ends_the_page():
    found = advise(np.random.default_rng(0).integers(1030, 1100, 3000), 2048)
    (only,) = found.decisions
    said = page(found)
    assert only.choice == "Nothing to gain: do not pack" and "<details" not in said and "plan.json" in only.runner_up
    assert found.row_length == 1104  # rows for the longest sequence: one in each


def test_rows_that_cut_fewer_tokens_are_compared_with_today_for_the_same_number_of_tokens():
    """They take more slots than today's short rows, and hold more: 12 % more slots, 11 % fewer for each token."""
    drawn = np.random.default_rng(4)
    lengths = drawn.integers(200, 1400, 4000) + drawn.integers(5, 700, 4000)
    found = advise(lengths, 1024, overlong="truncate", batch_size=4)
    first, batches, *_ = found.decisions
    assert found.slots > found.today.slots and found.gains
    today = found.today.slots / np.minimum(lengths, 1024).sum()
    saved = 1 - found.slots / lengths.sum() / today
    assert found.slots_ratio == pytest.approx(1 / (1 - saved))
    assert batches.choice == f"Pack them: {100 * saved:.1f} % fewer slots for each token that is kept"
    beyond = np.maximum(lengths - 1024, 0).sum() / lengths.sum()
    assert first.about == "Row length"
    assert first.reason.endswith(f"They lose none of the tokens; rows of 1,024 lose {100 * beyond:.1f} %.")


def test_where_padding_to_the_longest_is_as_good_nothing_is_packed():
    found = advise([700] * 5000, 2048, today="maximum")
    (only,) = found.decisions
    assert only.choice == "Do not pack: pad each batch to its longest sequence, not to the row length"
    assert "random batches of 32, each padded to its longest sequence, take 3.5 million" in only.reason
    assert not found.gains and found.loss == "" and found.notes == ()
    assert advise([700, 350] * 2500, 2048, today="maximum").gains


def test_a_recipe_may_count_sequences_before_they_are_split():
    lengths, recipe = [500] * 900 + [2500] * 100, Recipe(16, 1e-4, 1000)
    reason = about(advise(lengths, 1000, recipe=recipe), "Packs per update").reason
    split = "The data has 1,000 sequences and, split, 1,200: if the recipe counts them before the split, its total is"
    assert f"{split} 1,200 here." in reason
    assert "before the split" not in about(advise([500, 20] * 450, 1000, recipe=recipe), "Packs per update").reason


def test_no_shorter_rows_are_named_that_would_cut_sequences():
    long = advise([40] * 2000 + [1900] * 300, 2048, model="7B", memory="24GB", ranks=2, batch_size=4)
    short = advise([20, 60] * 1000, 2048, model="7B", memory="24GB", ranks=2, batch_size=8, keep_max_length=True)
    assert about(long, "Packs per update").runner_up == (
        "There is none: shorter rows for that would cut sequences, which have up to 1,900 tokens."
    )
    assert about(short, "Packs per update").runner_up.startswith("Shorter rows: one of 80 tokens holds about")
    lengths, update = [40] * 2000 + [9000] * 300, dict(model="7B", memory="24GB", ranks=8, batch_size=2)
    for rule, cost in (("split", "split sequences into more pieces"), ("truncate", "lose more tokens")):
        cut = advise(lengths, 2048, overlong=rule, keep_max_length=True, **update)
        assert about(cut, "Packs per update").runner_up == f"There is none: shorter rows for that would {cost}."


def test_rows_are_the_shortest_within_two_percent_by_work_in_the_form_of_the_model():
    drawn = np.random.default_rng(0)
    two = np.where(drawn.random(5000) < 0.6, drawn.normal(700, 40, 5000), drawn.normal(2300, 60, 5000)).astype(int)
    for form in ("bounds", "dense"):
        found = advise(two, 4096, attention=form)
        work = {row.max_length: row.work(form) for row in found.row_lengths if not row.tokens_cut}
        assert found.row_length == min(top for top, each in work.items() if each <= 1.02 * min(work.values()))
        assert found.row_length < 4096 and work[found.row_length] < 0.9 * work[4096]
        other = min((top for top in work if top != found.row_length), key=work.get)
        assert about(found, "Row length").runner_up.startswith(f"{other:,} tokens: ")
        attention = "flash_attention_2" if form == "bounds" else '"sdpa"\n'
        assert attention in found.code["Model"]


def test_a_kernel_is_advised_only_if_it_saves_over_five_percent_of_the_work_in_the_rows_to_take():
    """In today's long rows a dense mask takes 13 % more work; in rows of 1,024, which are as full, 3 % more."""
    short = np.random.default_rng(1).integers(100, 500, 5000)
    found, kept = advise(short, 4096), advise(short, 4096, keep_max_length=True)
    assert (found.form, found.row_length) == ("dense", 1024) and (kept.form, kept.row_length) == ("bounds", 4096)
    assert found.skipping_saves == 1 - found.chosen.skipping / found.chosen.dense < 0.05
    assert kept.skipping_saves == 1 - kept.now.skipping / kept.now.dense > 0.05
    assert "not worth its trouble: in the same rows, a token takes 3.1 % less work in the layers" in found.notes[0]
    two = [3728] * 466 + [2478] * 134
    bounds, dense = advise(two, 8192), advise(two, 8192, attention="dense")
    assert (bounds.form, bounds.row_length, dense.row_length) == ("bounds", 7456, 3728)
    assert bounds.skipping_saves == dense.skipping_saves == pytest.approx(0.133, abs=0.001)
    assert "13.3 % less work in the layers than with a dense mask in rows of 3,728, the best ones" in bounds.notes[0]
    assert not dense.gains and "in rows of 7,456, the best ones for it, a token takes 13.3 % less" in _attention_note(
        dense
    )


def test_sentences_about_one_of_something_and_about_ties():
    """Of each, the plural or the comparison would be wrong or say nothing."""
    ones = advise([1] * 3 + [513] * 40 + [1024] * 7, 1024, batch_size=1)
    assert about(ones, "Your batches").reason.startswith("For one pass, batches of 1 sequence take 27,691 slots")
    ones = advise([513] * 40 + [1024] * 7, 1024, batch_size=1, today="packed")
    assert "They need no mask, but each sequence is then a forward pass of its own." in about(ones, "Your batches")[3]
    whole = about(advise([1] * 3 + [513] * 40 + [1024] * 7, 1024), "Your batches").runner_up
    assert whole.endswith("no longer mix lengths, and a whole batch takes 16,416 slots.")
    bert = advise([1] * 3 + [513] * 40 + [1024] * 7, 1024, model="110M")
    assert about(bert, "Row length").reason.startswith(
        "It is the only one of 6 lengths tried that holds every sequence"
    )
    split = advise([90] * 600 + [1600] * 20, 1024, model="110M", max_sequences_per_pack=4)
    assert " that splits so few tokens." in about(split, "Row length").reason
    tied = about(advise([64, 128] * 2048, 4096), "Row length").reason
    assert tied.endswith(" and rows are 100.0 % full, as those are.")
    cut = advise([*[300] * 320, 9000], 512, overlong="truncate", today="sorted")
    of_today = "1 sequence of 321 (0.31 %) is longer than 512, and 8,488 tokens (8.1 %) are cut off."
    assert cut.decisions[0].reason.endswith(f"{of_today} Split longer sequences instead (--overlong split).")
    assert cut.notes == ()
    packed = about(advise([5, 9, 700] * 99, 700, today="maximum"), "Your batches")
    assert (
        "assumption" not in packed.reason and " (32 is an assumption; --batch-size says yours). " in packed.runner_up
    )


def test_a_few_slots_more_are_not_the_same_number():
    drawn = np.random.default_rng(77)
    found = advise([*drawn.integers(30, 61, 20000), *drawn.integers(1900, 2041, 3000)], 2048)
    other = next(row for row in found.row_lengths if row.max_length == 2048)
    assert found.row_length == 2040 and 0 < other.slots / found.slots - 1 < 0.00005
    assert about(found, "Row length").runner_up.endswith(" and under 0.01 % more slots.")


def test_longer_rows_are_named_only_if_they_cut_half_as_much_at_most():
    giant = [*np.random.default_rng(2).integers(50, 400, 5000), 250_000]
    assert "Rows of" not in about(advise(giant, 1024), "Longer sequences").runner_up
    tail = np.random.default_rng(2).lognormal(7, 1.35, 9000).astype(int) + 1
    assert "Rows of 8,192 leave 2" in about(advise(tail, 2048), "Longer sequences").runner_up


def test_the_memory_bounds_the_micro_batch_and_is_said():
    update = {"batch_size": 32, "accumulation": 8}
    small, large = (advise(CHATS, 4096, model="0.5B", memory=room, **update) for room in ("24GB", "80GB"))
    assert small.update.most < large.update.most and small.fit.recompute and not large.fit.recompute
    for found in (small, large):
        taken = [
            found.shape.memory(found.fit.rows + more, found.row_length, recompute=found.fit.recompute).total
            for more in (0, 1)
        ]
        assert taken[0] <= 0.9 * found.fit.room < taken[1] and found.update.after.micro_batch <= found.fit.rows
        assert found.memory.total <= taken[0] and found.fit.shards == 1
        assert f"of {found.fit.room / 1e9:.1f} GB" in about(found, "Packs per update").reason
    none = advise([40_000, 9000] * 9, 131_072, model="7B", memory="80GB", keep_max_length=True)
    assert about(none, "Packs per update").choice == "Not even one pack fits" and none.update is None
    longest = none.fit.longest
    assert f"at most {longest:,} tokens" in about(
        none, "Packs per update"
    ).runner_up and "several share a row" in page(none)
    for tokens, fits in ((longest, True), (longest + 8, False)):
        assert (none.shape.memory(1, tokens, shards=10**9, recompute=True).total <= 0.9 * 80e9) == fits
    divided = none.shape.memory(1, 131_072, shards=1 << 16, recompute=True).total / 1e9
    assert f"one pack of 131,072 tokens takes about {divided:.1f} GB" in about(none, "Packs per update").reason
    assert f"{divided:.1f} GB, and 72.0 GB are usable (90 % of 80.0 GB)" in about(none, "Packs per update").reason
    shared = advise(CHATS, 4096, model="7B", memory="80GB", **update)
    assert "of the usable 72.0 GB (90 % of 80.0 GB)" in about(shared, "Packs per update").reason
    said = about(shared, "Packs per update")
    assert shared.update.after.replicas == 2 and "shared by 2 devices" in said.reason
    assert shared.shape.memory(1, shared.row_length, recompute=True).total > 0.9 * 80e9
    assert said.choice.endswith("packs on 2 devices, since one does not hold the model")
    states = 18 * shared.shape.parameters / 1e9
    assert f"One device is not enough: weights, gradients and moments take {states:.1f} GB" in said.reason
    one_pack = shared.shape.memory(1, shared.row_length, recompute=True).activations / 1e9
    assert f"one pack takes {one_pack:.1f} GB more even with each layer computed twice." in said.reason
    assert "adapters (LoRA)" in said.reason and "offloading" in said.reason
    unknown = advise(CHATS, 4096, model="7B", memory="80GB")
    assert "One device is not enough" in repr(unknown) and "since one does not hold the model" in repr(unknown)
    assert "model.activation_checkpointing_enable()" in shared.code["Model"] and "PyTorch loop" not in shared.code
    assert all("--num_processes 2 --use_fsdp" in text for text in list(shared.code.values())[2:])


def test_no_row_is_longer_than_the_positions_of_the_model():
    found = advise(RNG.integers(1, 300, 500), 512, model="110M")
    assert max(row.max_length for row in found.row_lengths) == 512
    beyond = advise([600, 20] * 50, 640, model="110M")
    assert "has 600 tokens, and the model only 512 positions" in " ".join(beyond.notes)


def test_a_recipe_of_ones_own_is_adjusted():
    mine = Recipe(8, 1e-3, 10_000, gradient_accumulation_steps=6, max_length=128)
    found = advise(load("wordnet-pairs", 64, overlong="truncate"), recipe=mine)
    assert found.recipe == mine and found.today.batch_size == 8
    assert found.update.before == Batch(8, 6) and found.packed_recipe.total_sequences == 10_000


def test_attention_that_skips_is_advised_where_it_saves_work():
    long, short = advise([900, 1400] * 2000, 8192), advise([16, 9] * 450, 128)
    assert long.form == "bounds" and 'attention = "flash_attention_2" if' in long.code["Model"]
    assert short.form == "dense" and 'attention = "sdpa"\n' in short.code["Model"]
    assert "FLOP" in long.notes[0] and "dense mask" in short.notes[0]


@pytest.mark.parametrize(("says", "options"), [
    ("max_length must be from 1 to ", {"max_length": 0}),
    ("batch_size must be at least 1, not 0.", {"batch_size": 0}),
    ("'buckets', 'megabatches' or 'packed', not 'ordered'", {"today": "ordered"}),
    ("overlong must be 'truncate', 'drop' or 'split', not 'error'", {"overlong": "error"}),
    ("memory '80GB' needs a model", {"memory": "80GB"}),
    ("memory must be a number with MB, GB, TB, GiB, not '80'.", {"memory": "80", "model": "7B"}),
    ('memory must be text such as "80GB", not 80.', {"memory": 80, "model": "7B"}),
    ("model must be '110M', '340M'", {"model": "6B"}),
    ("max_sequences_per_pack must be at least 1, not 0.", {"max_sequences_per_pack": 0}),
    ("keep_max_length must be True or False, not 1.", {"keep_max_length": 1}),
    ("accumulation must be at least 1, not 0.", {"accumulation": 0}),
    ("epochs must be at least 1, not 0.", {"epochs": 0}),
    ("attention must be 'bounds' or 'dense', not 'flash'", {"attention": "flash"}),
    ("tokenizer must be left out for lengths", {"tokenizer": 1}),
    ("ranks must be from 1 to 65536, not 0", {"ranks": 0}),
    ("is packed already, with factor 2", {"recipe": Recipe(8, 1e-3, 100, packing_factor=2.0)}),
    ("batch_size must be left out beside a recipe", {"recipe": Recipe(8, 1e-3, 100), "batch_size": 9}),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_one_sentence(says, options):
    with pytest.raises((TypeError, ValueError)) as raised:
        advise([3, 5, 8], **options)
    assert says in str(raised.value)


def test_memory_is_read_with_its_unit():
    assert (memory_size("80GB"), memory_size("1.5 gib"), memory_size(" 512MB ")) == (80e9, 1.5 * 2**30, 512e6)


def test_a_loss_of_tokens_today_is_said_where_packs_gain_nothing():
    """Rows of 128 leave out most of SQuAD's tokens: packs of all of them take more slots, and hold more."""
    (only,) = advise("squad", 128, overlong="drop", today="sorted", batch_size=1).decisions
    assert only.choice == "Nothing to gain: do not pack" and "nobody changes a trainer" not in only.reason
    assert "would take 15.4 million for 15,249,479 tokens, 1.2 % more slots than today for each token." in only.reason
    assert "13,058,961 tokens (85.6 %) are left out. Split longer sequences instead" in only.reason
