"""Every number of the advice, counted again by a second and simpler program, on sets of these tests' own making.

Here are only loops, `Counter` and Python's own numbers: nothing of packlib computes what is compared. How a number is
written is packlib's, and `test_report.py` looks at that.
"""

import json
import math
import random
import re
from bisect import bisect_left, insort
from collections import Counter
from typing import NamedTuple

import pytest

from packlib.lengths import LengthHistogram
from packlib.tools.advice import advise
from packlib.tools.advice.page import page
from packlib.tools.advice.words import compared as than
from packlib.tools.advice.words import large, plural, signed
from packlib.tools.advice.words import share_of as percent
from tests.hostile import Elements


def log_normal(mean, spread, count, most=60_000):
    drawn = random.Random(0)
    return Counter(min(most, max(1, int(math.exp(drawn.gauss(mean, spread))))) for _ in range(count))


def bimodal():
    drawn = random.Random(1)
    return Counter(max(1, int(drawn.gauss(*drawn.choice([(90, 9), (1250, 12)])))) for _ in range(4000))


def trillion():
    """10^12 sequences, of which each length has fewer than the one below."""
    shares = [math.exp(-length / 300) for length in range(1, 2049)]
    counts = Counter({length: int(share / sum(shares) * 10**12) for length, share in enumerate(shares, 1)})
    counts[1] += 10**12 - counts.total()
    return counts


SETS = {  # the lengths, the row length now, and the options
    "functions at 512": (lambda: log_normal(4, 1.1, 1200), 512, {}),
    "functions at 512, split": (lambda: log_normal(4, 1.1, 1200), 512, {"overlong": "split"}),
    "chats at 1,024, left out": (lambda: log_normal(5, 1, 3000), 1024, {"overlong": "drop", "today": "sorted"}),
    "bimodal at 2,048": (bimodal, 2048, {"batch_size": 16}),
    "documents at 16,384": (lambda: log_normal(9, 1.2, 8000), 16_384, {}),
    "all as long as a row": (lambda: Counter({64: 6400}), 64, {"today": "fixed"}),
    "one sequence": (lambda: Counter({5: 1}), 8, {}),
    "a trillion": (trillion, 2048, {}),
}
SLOW = ("a trillion",)  # whose packs are too many to be counted one by one


class Case(NamedTuple):
    """The lengths, the setting of now, whether packs are counted, and the advice as JSON, as a plan and as a page."""

    whole: Counter
    top: int
    overlong: str
    today: str
    size: int
    counted: bool
    said: dict
    made: dict
    page: str


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SETS]
)
def case(request):
    make, top, options = SETS[request.param]
    whole = make()
    advice = advise(histogram_of(whole), top, **options)
    setting = {"overlong": "truncate", "today": "random", "batch_size": 32} | options
    said, made = json.loads(advice.to_json()), json.loads(advice.plan.to_json())
    return Case(whole, top, *setting.values(), request.param not in SLOW, said, made, Elements(page(advice)).text)


def histogram_of(counts):
    return LengthHistogram([counts[length] for length in range(max(counts) + 1)])


def tokens_of(counts):
    return sum(length * count for length, count in counts.items())


def cut(whole, top, overlong):
    """The lengths as they go into rows of `top`."""
    done = Counter()
    for length, count in whole.items():
        if length <= top:
            done[length] += count
        elif overlong == "truncate":
            done[top] += count
        elif overlong == "split":
            done[top] += count * (length // top)
            if length % top:
                done[length % top] += count
    return +done


def lost(whole, top, overlong):
    """Sequences that are too long, and their tokens that are lost or moved."""
    longer = {length: count for length, count in whole.items() if length > top}
    moved = sum(count * (length if overlong == "drop" else length - top) for length, count in longer.items())
    return sum(longer.values()), moved


def best_fit(counts, top):
    """Packs of best fit, from long to short, one sequence at a time."""
    room = []
    for length in sorted(counts, reverse=True):
        for _ in range(counts[length]):
            at = bisect_left(room, length)
            insort(room, (room.pop(at) if at < len(room) else top) - length)
    return len(room)


def slots_of(counts, habit, size, top):
    """Expected slots of one pass: `size` sequences a batch."""
    n = counts.total()
    if habit == "fixed":
        return n * top
    if habit == "sorted":
        slots = before = 0
        for length in sorted(counts):  # a batch ends with its longest
            slots += size * ((before + counts[length]) // size - before // size) * length
            before += counts[length]
        return slots + n % size * max(counts)

    def expected(drawn):  # the longest of so many
        below, shorter, mean = 0, 0.0, 0.0
        for length in sorted(counts):
            below += counts[length]
            likely = math.prod((below - i) / (n - i) for i in range(drawn)) if below >= drawn else 0.0
            mean, shorter = mean + (likely - shorter) * length, likely
        return mean

    return n // size * size * expected(size) + (n % size * expected(n % size) if n % size else 0)


def assert_says(text, *parts):
    """The text has all of these, in this order."""
    at = 0
    for part in parts:
        assert part in text[at:], f"{part!r} is missing in {text!r}"
        at = text.index(part, at) + len(part)


def test_each_row_length(case):
    rows, step = {row["max_length"]: row for row in case.said["row_lengths"]}, 8 if case.top >= 64 else 1
    tried = {round(case.top * eighths / 8 / step) * step for eighths in (2, 4, 5, 6, 7, 9, 10, 12, 14, 16, 24, 32)}
    assert rows.keys() == {one for one in tried | {case.top} if one and cut(case.whole, one, case.overlong)}
    now, mean = rows[case.top], tokens_of(case.whole) / case.whole.total()
    assert f"{plural(case.whole.total(), 'sequence')} of {mean:,.1f} tokens on average" in case.page
    for length, row in rows.items():
        kept = cut(case.whole, length, case.overlong)
        tokens = tokens_of(kept)
        assert row["slots"] == row["packs"] * length and row["tokens"] == tokens
        assert (row["overlong"], row["tokens_cut"]) == lost(case.whole, length, case.overlong)
        assert row["packs"] >= -(-tokens // length)
        if not row["counted"]:
            saved = 1 - row["slots"] / row["tokens"] / (now["slots"] / now["tokens"])
            assert row["packs"] == -(-tokens // length) and (row["tokens_cut"] > now["tokens_cut"] or saved <= 0.02)
            assert len(case.whole) > 4096 and f"≥ {row['packs']:,}" in case.page
        elif case.counted:
            best, planned = best_fit(kept, length), length in (case.top, case.said["plan"]["max_length"])
            assert row["packs"] == best or (planned and row["packs"] < best)
        # FLOP of a layer of Llama 3 8B: 32 heads and 8 key-value heads of 128, three matrices of 4,096 by 14,336
        linear = row["slots"] * (2 * 4096 * 128 * (2 * 32 + 2 * 8) + 6 * 4096 * 14336 + 2 * 4096)
        squares = sum(count * n**2 for n, count in kept.items())
        assert row["skipping"] == pytest.approx(32 * (linear + 2 * 4096 * squares) / tokens)
        assert row["dense"] == pytest.approx(32 * (linear + 4 * 4096 * row["packs"] * length**2) / tokens)
        shown = (f"{length:,}", f"{row['packs']:,}", f"{row['slots']:,}", f"{row['overlong']:,}")
        assert all(number in case.page for number in shown)


def test_the_row_length_that_is_chosen(case):
    top, rows = case.top, {row["max_length"]: row for row in case.said["row_lengths"]}
    each = {length: row["slots"] / row["tokens"] for length, row in rows.items()}
    now, tokens = rows[top]["tokens_cut"], case.said["data"]["tokens"]
    allowed = [length for length in sorted(rows) if rows[length]["tokens_cut"] <= now and rows[length]["counted"]]
    best = next(length for length in allowed if each[length] <= 1.005 * min(each[other] for other in allowed))
    chosen, (_, choice, reason, other) = top, case.said["decisions"][0].values()
    if each[best] < 0.98 * each[top]:
        chosen = best
        assert choice == f"{chosen:,} tokens instead of {top:,}"
        assert_says(reason, f"{chosen:,} are {percent(1, each[chosen])} full", f"{top:,} are {percent(1, each[top])}")
        assert_says(reason, f"take {percent(1 - each[chosen] / each[top])} fewer slots")
        assert_says(other, f"{top:,} as now, with {than(each[top], each[chosen], 'slots')} for a token.")
    else:
        assert choice == f"{top:,} tokens, as now"
        assert_says(reason, f"Of {len(rows) - 1} other lengths from {min(rows):,} to {max(rows):,}, none")
        halves = [length for length in sorted(rows) if rows[length]["tokens_cut"] <= now / 2]
        if now > 0.01 * tokens and halves:
            one, work = rows[halves[0]], rows[halves[0]]["skipping"] / rows[top]["skipping"] - 1
            assert one["counted"]
            assert_says(other, f"{halves[0]:,} cuts {percent(one['tokens_cut'], tokens)}", percent(now, tokens))
            assert_says(other, than(each[halves[0]], each[top], "slots"), f"is {signed(work)}.")
        elif others := [length for length in allowed if length != top]:
            least = min(others, key=lambda length: each[length])
            assert_says(other, f"{least:,}, with {than(each[least], each[top], 'slots')} for a token.")
    assert case.said["plan"]["max_length"] == chosen


def test_the_plan_holds_each_sequence_once(case):
    plan, held, packs = case.said["plan"], Counter(), 0
    top, strategies = plan["max_length"], case.made["strategies"]
    for lengths, repeats in zip(strategies, case.made["repeats"], strict=True):
        assert sum(lengths) <= top
        packs += repeats
        for length in lengths:
            held[length] += repeats
    rows = cut(case.whole, top, case.overlong)
    tokens = tokens_of(rows)
    assert held == rows and packs == plan["packs"] >= plan["lower_bound"] >= -(-tokens // top)
    assert plan["slots"] == packs * top and plan["deepest"] == max(map(len, strategies))
    assert plan["packing_factor"] == pytest.approx(rows.total() / packs)
    assert plan["efficiency"] == pytest.approx(tokens / (packs * top))
    (_, choice, reason, runner_up), gap = case.said["decisions"][1].values(), packs - plan["lower_bound"]
    assert gap <= max(1, 0.001 * plan["lower_bound"]) or plan["method"] == "optimal"
    assert choice == plan["method"]
    assert_says(reason, f"{plural(packs, 'pack')}, {percent(tokens, packs * top)} full: no packing has fewer")
    assert_says(reason, f"than {plan['lower_bound']:,}, {percent(gap, packs)} below." if gap else "fewer.")
    other = case.said["methods"][1]
    assert runner_up == f"{other['method']}: {than(other['packs'], packs, 'packs')}, {other['packs']:,}."


HABITS = {
    "random": "andom batches, each padded to its longest",
    "sorted": "orted batches, each padded to its longest",
    "fixed": "atches padded to the row length",
}


def test_what_it_brings_against_today(case):
    rows, size, today = cut(case.whole, case.top, case.overlong), case.size, case.today
    slots, packed = {habit: slots_of(rows, habit, size, case.top) for habit in HABITS}, case.said["plan"]["slots"]
    assert case.said["today"]["slots"] == pytest.approx(slots[today]) and case.said["today"]["rows"] == rows.total()
    others = {habit: count for habit, count in slots.items() if habit != today}
    assert {one["habit"]: one["slots"] for one in case.said["habits"]} == pytest.approx(others)
    (_, choice, reason, runner_up), saved = case.said["decisions"][2].values(), slots[today] - packed
    gain = f"{slots[today] / packed:.2f} times fewer slots than today"
    assert choice == (gain if saved > 0.02 * slots[today] else "Nothing to gain: do not pack")
    assert_says(reason, HABITS[today], f"{large(slots[today])} slots in {plural(-(-rows.total() // size), 'batch')}")
    fewer = f"{large(packed)}: {large(abs(saved))} ({percent(abs(saved), slots[today])}) "
    assert_says(reason, f"of {size:,}", fewer + ("fewer" if saved > 0 else "more") if saved else "take as many.")
    count, habit = min((count, habit) for habit, count in others.items())
    more = than(count, packed, "slots")
    assert_says(runner_up, f"{HABITS[habit]}: {more} {'as' if more == 'as many slots' else 'than'} packs")


def test_the_update(case):
    before, after, plan = case.said["update"]["before"], case.said["update"]["after"], case.said["plan"]
    _, choice, reason, runner_up = case.said["decisions"][3].values()
    n = cut(case.whole, plan["max_length"], case.overlong).total()
    assert before["micro_batch"] == case.size and before["gradient_accumulation_steps"] == 8
    assert before["total_sequences"] == after["total_sequences"] == (10 * n if n <= 10**6 else max(n, 10**7))
    slots = case.said["today"]["slots"] / -(-case.said["today"]["rows"] // case.size)
    assert case.said["update"]["most"] == max(1, int(slots // plan["max_length"]))
    chosen = after["micro_batch"], after["gradient_accumulation_steps"]
    sequences, wanted = math.prod(chosen) * plan["packing_factor"], 8 * case.size
    assert case.said["update"]["off"] == pytest.approx(sequences / wanted - 1, abs=1e-8)
    assert choice == f"{chosen[0]:,} × {chosen[1]:,} packs"
    held = f"They hold {sequences:,.1f} sequences, {signed(sequences / wanted - 1)} against {wanted:,} today"
    assert_says(reason, held, f"the {slots:,.0f} slots of an average batch today.")
    assert ("rate and betas stay" in reason) == (after["betas"] == before["betas"])
    if other := re.match(r"([\d,]+) × ([\d,]+): (.*) of the sequences, ", runner_up):
        packs = math.prod(int(count.replace(",", "")) for count in other.groups()[:2])
        assert other[3] == signed(packs * plan["packing_factor"] / wanted - 1)


def test_one_pass_and_what_is_cut(case):
    overlong, plan, after = case.overlong, case.said["plan"], case.said["update"]["after"]
    rows = after["micro_batch"] * after["gradient_accumulation_steps"]
    updates, last = -(-plan["packs"] // rows), plan["packs"] % rows
    before = math.ceil(case.said["today"]["rows"] / (8 * case.size))
    *_, done, lossy = case.said["decisions"]
    assert done["choice"] == plural(updates, "update") and case.said["update"]["updates"] == updates
    wanted = f"{plural(plan['packs'], 'pack')} in updates of {rows:,}; today it is {plural(before, 'update')}."
    assert done["reason"] == wanted
    left = (
        f"{plural(updates - 1, 'update')}, if the last {'pack is' if last == 1 else f'{last:,} packs are'} left out."
    )
    left = left if updates > 1 else "There is nothing to choose."
    assert done["runner_up"].startswith(left if last else "Every update is full.")
    top, tokens = plan["max_length"], tokens_of(case.whole)
    longer, moved = lost(case.whole, top, overlong)
    if not longer:
        assert lossy["choice"] == "Nothing"
        assert_says(lossy["reason"], f"The longest sequence has {max(case.whole):,} tokens.")
        return
    assert lossy["choice"].lower().startswith(f"{percent(moved, tokens)} of the tokens ")
    found = f"{plural(longer, 'sequence')} ({percent(longer, case.whole.total())}) {'is' if longer == 1 else 'are'}"
    assert_says(lossy["reason"], f"{found} longer than {top:,}, and {moved:,} tokens ")
    other = "truncate" if overlong == "split" else "split"
    if case.counted and plan["method"] == "lpfhp":
        packs = best_fit(cut(case.whole, top, other), top)
        assert lossy["runner_up"].endswith(f"with {than(packs, plan['packs'], 'packs')}, {packs:,}.")
    if other == "truncate":
        assert_says(lossy["runner_up"], f"{percent(lost(case.whole, top, other)[1], tokens)} of the tokens are lost")


def test_a_source_that_was_not_cut():
    whole = LengthHistogram([0, 5, 0, 7])
    for source, sizes in ((whole, "12 sequences and 26 tokens"), ([1, 2], "2 sequences and 3 tokens")):
        said = advise(whole, source=source).decisions[-1].reason
        assert_says(said, "no more sequences longer than 3 than the data, so none was cut before.")
        assert said.endswith(f"It has {sizes}, and the data has 12 and 26.")
