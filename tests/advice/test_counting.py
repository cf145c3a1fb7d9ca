"""Every number of the advice, counted again by a second and simpler program, on sets of these tests' own making.

Here are only loops, `Counter` and Python's own numbers: nothing of packlib computes what is compared. How a number is
written is packlib's, and `test_report.py` looks at that.
"""

import ast
import json
import math
import random
import re
import sysconfig
from bisect import bisect_left, insort
from collections import Counter
from pathlib import Path

import pytest

from packlib.advice import advise
from packlib.advice.page import page
from packlib.advice.words import compared as than
from packlib.advice.words import large, many, signed
from packlib.advice.words import share_of as percent
from packlib.lengths import LengthHistogram
from tests.hostile import Elements


def functions(most):
    """Words and marks of the first functions of Python's standard library."""
    lengths = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                lengths.append(len(re.findall(r"\w+|[^\w\s]", "\n".join(lines[node.lineno - 1 : node.end_lineno]))))
        if len(lengths) >= most:
            break
    return Counter(lengths[:most])


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


SETS = {  # the lengths, the row length now, the options, and whether packs are counted one by one
    "some functions at 512": (lambda: functions(1200), 512, {}, True),
    "some functions at 512, split": (lambda: functions(1200), 512, {"overlong": "split"}, True),
    "chats at 1,024, left out": (lambda: log_normal(5, 1, 3000), 1024, {"overlong": "drop", "today": "sorted"}, True),
    "bimodal at 2,048": (bimodal, 2048, {"batch_size": 16}, True),
    "documents at 16,384": (lambda: log_normal(9, 1.2, 8000), 16_384, {}, True),
    "all as long as a row": (lambda: Counter({64: 6400}), 64, {"today": "fixed"}, True),
    "one sequence": (lambda: Counter({5: 1}), 8, {}, True),
    "functions at 512": (lambda: functions(10**6), 512, {}, False),
    "2 million at 8,192": (lambda: log_normal(6, 1.2, 2_000_000), 8192, {}, False),
    "a trillion": (trillion, 2048, {}, False),
}
QUICK = list(SETS)[:7]


@pytest.fixture(
    scope="module", params=[name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SETS]
)
def case(request):
    """The lengths, the row length now, the options, whether packs are counted, and the advice as JSON and as a page."""
    make, top, options, counted = SETS[request.param]
    whole = make()
    given = LengthHistogram([whole[length] for length in range(max(whole) + 1)])
    advice = advise(given, top, **options)
    said = json.loads(advice.to_json())
    said["strategies"] = json.loads(advice.plan.to_json())
    said["page"] = Elements(page(advice)).text
    return whole, top, options, counted, said


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


def test_each_row_length(case):
    whole, top, options, counted, said = case
    overlong, step = options.get("overlong", "truncate"), 8 if top >= 64 else 1
    wanted = {round(top * eighths / 8 / step) * step for eighths in (2, 4, 5, 6, 7, 9, 10, 12, 14, 16, 24, 32)} | {top}
    assert {row["max_length"] for row in said["row_lengths"]} == {
        one for one in wanted if one and cut(whole, one, overlong)
    }
    for row in said["row_lengths"]:
        length = row["max_length"]
        rows = cut(whole, length, overlong)
        assert row["slots"] == row["packs"] * length and row["tokens"] == tokens_of(rows)
        assert (row["overlong"], row["tokens_cut"]) == lost(whole, length, overlong)
        assert row["packs"] >= -(-tokens_of(rows) // length)
        if not row["counted"]:
            now = next(row for row in said["row_lengths"] if row["max_length"] == top)
            saved = 1 - row["slots"] / row["tokens"] / (now["slots"] / now["tokens"])
            assert row["packs"] == -(-tokens_of(rows) // length)
            assert row["tokens_cut"] > now["tokens_cut"] or saved <= 0.02
            assert len(whole) > 4096 and f"≥ {row['packs']:,}" in said["page"]
        elif counted and length not in (top, said["plan"]["max_length"]):
            assert row["packs"] == best_fit(rows, length)
        elif counted:
            assert row["packs"] <= best_fit(rows, length)
        # FLOP of a layer of Llama 3 8B: 32 heads and 8 key-value heads of 128, three matrices of 4,096 by 14,336
        token = 2 * 4096 * 128 * (2 * 32 + 2 * 8) + 6 * 4096 * 14336 + 2 * 4096
        squares = sum(count * n**2 for n, count in rows.items())
        skipping = 32 * (row["slots"] * token + 2 * 4096 * squares) / tokens_of(rows)
        dense = 32 * (row["slots"] * token + 4 * 4096 * row["packs"] * length**2) / tokens_of(rows)
        assert (row["skipping"], row["dense"]) == (pytest.approx(skipping), pytest.approx(dense))


def test_the_row_length_that_is_chosen(case):
    _, top, _, _, said = case
    rows = {row["max_length"]: row for row in said["row_lengths"]}
    each = {length: row["slots"] / row["tokens"] for length, row in rows.items()}
    allowed = [length for length in sorted(rows) if rows[length]["tokens_cut"] <= rows[top]["tokens_cut"]]
    allowed = [length for length in allowed if rows[length]["counted"]]
    best = next(length for length in allowed if each[length] <= 1.005 * min(each[other] for other in allowed))
    chosen = best if each[best] < 0.98 * each[top] else top
    assert said["plan"]["max_length"] == chosen
    decision = said["decisions"][0]
    if chosen != top:
        assert decision["choice"] == f"{chosen:,} tokens instead of {top:,}"
        assert f"Rows of {chosen:,} are {percent(1, each[chosen])} full and those of {top:,} are" in decision["reason"]
        assert (
            f"are {percent(1, each[top])}, so the same tokens take {percent(1 - each[chosen] / each[top])} fewer"
            in (decision["reason"])
        )
        assert decision["runner_up"] == f"{top:,} as now, with {than(each[top], each[chosen], 'slots')} for a token."
        return
    assert decision["choice"] == f"{top:,} tokens, as now"
    assert f"Of {len(rows) - 1} other lengths from {min(rows):,} to {max(rows):,}, none" in decision["reason"]
    now, tokens = rows[top]["tokens_cut"], said["data"]["tokens"]
    halves = [length for length in sorted(rows) if rows[length]["tokens_cut"] <= now / 2]
    if now > 0.01 * tokens and halves:
        one = rows[halves[0]]
        assert one["counted"]
        said_of = (
            f"{halves[0]:,} cuts {percent(one['tokens_cut'], tokens)} of the tokens instead of {percent(now, tokens)}"
        )
        assert decision["runner_up"].startswith(
            f"{said_of}, with {than(each[halves[0]], each[top], 'slots')} for a token"
        )
        work = one["skipping"] / rows[top]["skipping"] - 1
        assert decision["runner_up"].endswith(f"is {signed(work)}.")
    elif others := [length for length in allowed if length != top]:
        least = min(others, key=lambda length: each[length])
        assert decision["runner_up"] == f"{least:,}, with {than(each[least], each[top], 'slots')} for a token."


def test_the_plan_holds_each_sequence_once(case):
    whole, _, options, _, said = case
    top, plan, made = said["plan"]["max_length"], said["plan"], said["strategies"]
    held, packs = Counter(), 0
    for lengths, repeats in zip(made["strategies"], made["repeats"], strict=True):
        assert sum(lengths) <= top
        packs += repeats
        for length in lengths:
            held[length] += repeats
    rows = cut(whole, top, options.get("overlong", "truncate"))
    assert held == rows and packs == plan["packs"] >= plan["lower_bound"] >= -(-tokens_of(rows) // top)
    assert plan["slots"] == packs * top and plan["deepest"] == max(map(len, made["strategies"]))
    assert plan["packing_factor"] == pytest.approx(rows.total() / packs)
    assert plan["efficiency"] == pytest.approx(tokens_of(rows) / (packs * top))
    decision = said["decisions"][1]
    proof = "no packing has fewer"
    if packs > plan["lower_bound"]:
        gap = packs - plan["lower_bound"]
        proof += f" than {plan['lower_bound']:,}, {percent(gap, packs)} below"
        assert gap <= max(1, 0.001 * plan["lower_bound"]) or plan["method"] == "optimal"
    assert decision["choice"] == plan["method"]
    assert decision["reason"] == f"{many(packs, 'pack')}, {percent(tokens_of(rows), packs * top)} full: {proof}."
    other = said["methods"][1]
    assert decision["runner_up"] == (f"{other['method']}: {than(other['packs'], packs, 'packs')}, {other['packs']:,}.")


HABITS = {
    "random": "andom batches, each padded to its longest",
    "sorted": "orted batches, each padded to its longest",
    "fixed": "atches padded to the row length",
}


def test_what_it_brings_against_today(case):
    whole, top, options, _, said = case
    rows, size = cut(whole, top, options.get("overlong", "truncate")), options.get("batch_size", 32)
    slots = {habit: slots_of(rows, habit, size, top) for habit in HABITS}
    today, packed = options.get("today", "random"), said["plan"]["slots"]
    assert said["today"]["slots"] == pytest.approx(slots[today]) and said["today"]["rows"] == rows.total()
    assert {one["habit"]: one["slots"] for one in said["habits"]} == pytest.approx(
        {habit: count for habit, count in slots.items() if habit != today}
    )
    decision, saved = said["decisions"][2], slots[today] - packed
    assert decision["choice"] == (
        f"{slots[today] / packed:.2f} times fewer slots than today"
        if saved > 0.02 * slots[today]
        else "Nothing to gain: do not pack"
    )
    batches = many(-(-rows.total() // size), "batch")
    fewer = f"{large(packed)}: {large(abs(saved))} ({percent(abs(saved), slots[today])}) "
    fewer = fewer + ("fewer" if saved > 0 else "more") if saved else "as many"
    comma = "," * ("," in HABITS[today])
    wanted = f"{HABITS[today]}{comma} take {large(slots[today])} slots in {batches} of {size:,}, and the packs take "
    assert decision["reason"][1:] == f"{wanted}{fewer}."
    other = min((count, habit) for habit, count in slots.items() if habit != today)[1]
    more = than(slots[other], packed, "slots")
    against = "as packs" if more == "as many slots" else "than packs"
    assert decision["runner_up"][1:].startswith(f"{HABITS[other]}: {more} {against}")


def test_the_update(case):
    whole, _, options, _, said = case
    before, after, plan = said["update"]["before"], said["update"]["after"], said["plan"]
    size, decision = options.get("batch_size", 32), said["decisions"][3]
    n = cut(whole, plan["max_length"], options.get("overlong", "truncate")).total()
    assert before["micro_batch"] == size and before["gradient_accumulation_steps"] == 8
    assert before["total_sequences"] == after["total_sequences"] == (10 * n if n <= 10**6 else max(n, 10**7))
    slots = said["today"]["slots"] / -(-said["today"]["rows"] // size)
    assert said["update"]["most"] == max(1, int(slots // plan["max_length"]))
    chosen = after["micro_batch"], after["gradient_accumulation_steps"]
    sequences, wanted = math.prod(chosen) * plan["packing_factor"], 8 * size
    assert said["update"]["off"] == pytest.approx(sequences / wanted - 1, abs=1e-8)
    assert decision["choice"] == f"{chosen[0]:,} × {chosen[1]:,} packs"
    held = f"They hold {sequences:,.1f} sequences, {signed(sequences / wanted - 1)} against {wanted:,} today"
    assert decision["reason"].startswith(held)
    assert ("rate and betas stay" in decision["reason"]) == (after["betas"] == before["betas"])
    assert f"the {slots:,.0f} slots of an average batch today." in decision["reason"]
    if other := re.match(r"([\d,]+) × ([\d,]+): (.*) of the sequences, ", decision["runner_up"]):
        packs = math.prod(int(count.replace(",", "")) for count in other.groups()[:2])
        assert other[3] == signed(packs * plan["packing_factor"] / wanted - 1)


def test_one_pass_and_what_is_cut(case):
    whole, _, options, counted, said = case
    overlong, plan, after = options.get("overlong", "truncate"), said["plan"], said["update"]["after"]
    rows = after["micro_batch"] * after["gradient_accumulation_steps"]
    updates, last = -(-plan["packs"] // rows), plan["packs"] % rows
    before = math.ceil(said["today"]["rows"] / (8 * options.get("batch_size", 32)))
    *_, done, lossy = said["decisions"]
    assert done["choice"] == many(updates, "update") and said["update"]["updates"] == updates
    wanted = f"{many(plan['packs'], 'pack')} in updates of {rows:,}; today it is {many(before, 'update')}."
    assert done["reason"] == wanted
    left = f"{many(updates - 1, 'update')}, if the last {'pack is' if last == 1 else f'{last:,} packs are'} left out."
    left = left if updates > 1 else "There is nothing to choose."
    assert done["runner_up"].startswith(left if last else "Every update is full.")
    top, tokens = plan["max_length"], tokens_of(whole)
    longer, moved = lost(whole, top, overlong)
    if not longer:
        assert lossy["choice"] == "Nothing" and f"The longest sequence has {max(whole):,} tokens." in lossy["reason"]
        return
    assert lossy["choice"].lower().startswith(f"{percent(moved, tokens)} of the tokens ")
    assert lossy["choice"][0] != "u"
    found = (
        f"{many(longer, 'sequence')} ({percent(longer, whole.total())}) {'is' if longer == 1 else 'are'} longer than"
    )
    assert lossy["reason"].startswith(f"{found} {top:,}, and {moved:,} tokens ")
    other = "truncate" if overlong == "split" else "split"
    if counted and plan["method"] == "lpfhp":
        packs = best_fit(cut(whole, top, other), top)
        assert lossy["runner_up"].endswith(f"with {than(packs, plan['packs'], 'packs')}, {packs:,}.")
    if other == "truncate":
        assert f"{percent(lost(whole, top, other)[1], tokens)} of the tokens are lost" in lossy["runner_up"]


def test_the_page_has_the_numbers_of_the_json(case):
    whole, *_, said = case
    assert (
        f"{many(whole.total(), 'sequence')} of {tokens_of(whole) / whole.total():,.1f} tokens on average"
        in said["page"]
    )
    for row in said["row_lengths"]:
        shown = (f"{row['max_length']:,}", f"{row['packs']:,}", f"{row['slots']:,}", f"{row['overlong']:,}")
        assert all(number in said["page"] for number in shown)


@pytest.mark.parametrize("overlong", ["truncate", "drop", "split"])
def test_what_was_cut_before(overlong):
    source = log_normal(5, 1, 3000)
    data = cut(source, 512, overlong)
    given, before = ([counts[length] for length in range(max(counts) + 1)] for counts in (data, source))
    said = advise(LengthHistogram(given), 512, source=LengthHistogram(before), keep_max_length=True).as_dict()
    found, top = said["source"], max(data)
    longer = sum(count for length, count in source.items() if length > top)
    missing = tokens_of(source) - tokens_of(data)
    assert (found["sequences"], found["tokens"]) == (source.total(), tokens_of(source))
    assert (found["overlong"], found["left"], found["lost"]) == (longer, 0, missing)
    assert best_fit(cut(source, 512, "split"), 512) >= found["packs"] >= -(-tokens_of(source) // 512)
    fewer = f", {missing:,} ({percent(missing, tokens_of(source))}) fewer" if missing else ""
    more = than(found["packs"], said["plan"]["packs"], "packs")
    assert said["decisions"][-1]["reason"].endswith(
        f"In the source, {longer} sequences ({percent(longer, source.total())}) are longer than {top}, and in the data "
        f"0. It has {source.total():,} sequences and {tokens_of(source):,} tokens, and the data has {data.total():,} "
        f"and {tokens_of(data):,}{fewer}. All tokens of the source take {more}, {found['packs']:,}, and its longest "
        f"sequence a row of {max(source):,}."
    )


def test_a_source_that_was_not_cut():
    counts = [0, 5, 0, 7]
    for source, sizes in (
        (LengthHistogram(counts), "12 sequences and 26 tokens"),
        ([1, 2], "2 sequences and 3 tokens"),
    ):
        said = advise(LengthHistogram(counts), source=source).decisions[-1].reason
        assert "The source has no more sequences longer than 3 than the data, so none was cut before." in said
        assert said.endswith(f"It has {sizes}, and the data has 12 and 26.")
