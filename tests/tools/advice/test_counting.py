"""Every number of the advice, counted again by a second and simpler program, on sets of these tests' own making.

Here are only loops, `Counter` and Python's own numbers: nothing of packlib computes what is compared. How a number is
written is packlib's, and `test_report.py` looks at that.
"""

import csv
import json
import math
import random
import re
from bisect import bisect_left, insort
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from packlib.lengths import LengthHistogram
from packlib.tools.advice import advise
from packlib.tools.advice.page import page
from packlib.tools.advice.words import compared as than
from packlib.tools.advice.words import large, plural, signed
from packlib.tools.advice.words import share_of as percent
from tests.hostile import Elements

LENGTHS = Path(__file__).parents[3] / "data" / "lengths"


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


def drawn(one, count, seed=2):
    """As many lengths as `one` makes of a generator."""
    source = random.Random(seed)
    return Counter(max(1, int(one(source))) for _ in range(count))


def published(name):
    """The lengths of a trace, as its file counts them."""
    with (LENGTHS / f"{name}.csv").open(newline="") as file:
        return Counter({int(row["length"]): int(row["count"]) for row in csv.DictReader(file)})


def capped(mean, spread, count, cap):
    return drawn(lambda source: min(cap, source.randint(80, 900) + math.exp(source.gauss(mean, spread))), count)


def tenth_longer():
    short = drawn(lambda source: min(1024, source.gammavariate(3, 120)), 9000)
    return short + drawn(lambda source: source.randint(1025, 6000), 1000)


def two_bands():
    return drawn(lambda source: source.randint(30, 60), 20_000) + drawn(
        lambda source: source.randint(1900, 2040), 3000
    )


SETS = {  # the lengths, the row length now, and the options
    "functions at 512": (lambda: log_normal(4, 1.1, 1200), 512, {}),
    "functions at 512, cut": (lambda: log_normal(4, 1.1, 1200), 512, {"overlong": "truncate"}),
    "chats at 1,024, left out": (lambda: log_normal(5, 1, 3000), 1024, {"overlong": "drop", "today": "sorted"}),
    "bimodal at 2,048": (bimodal, 2048, {"batch_size": 16}),
    "documents at 16,384": (lambda: log_normal(9, 1.2, 8000), 16_384, {}),
    "all as long as a row": (lambda: Counter({64: 6400}), 64, {"today": "maximum"}),
    "one sequence": (lambda: Counter({5: 1}), 8, {}),
    "two peaks at 4,096": (
        lambda: drawn(lambda source: source.gauss(*source.choice([(700, 40), (700, 40), (2300, 60)])), 3000),
        4096,
        {},
    ),
    "two peaks with a dense mask": (
        lambda: drawn(lambda source: source.gauss(*source.choice([(700, 40), (2300, 60)])), 3000),
        4096,
        {"attention": "dense"},
    ),
    "just over half": (lambda: drawn(lambda source: source.randrange(1030, 1100), 3000), 2048, {}),
    "nearly full": (lambda: drawn(lambda source: 2048 - min(400, source.expovariate(0.05)), 3000), 2048, {}),
    "short posts at 2,048": (lambda: drawn(lambda source: source.randrange(5, 60), 20_000), 2048, {}),
    "rollouts with a cap": (lambda: capped(8.1, 1.05, 4000, 16_384), 16_384, {"batch_size": 4}),
    "code at 4,096": (lambda: log_normal(8, 1.3, 1000), 4096, {}),
    "code at 4,096, left out": (lambda: log_normal(8, 1.3, 1000), 4096, {"overlong": "drop"}),
    "a tail at 2,048": (lambda: log_normal(5.6, 1, 6000), 2048, {}),
    "five": (lambda: Counter([700, 130, 512, 40, 900]), 1024, {"batch_size": 2, "accumulation": 1}),
    "sorted already": (lambda: log_normal(5, 1, 3000), 8192, {"today": "sorted"}),
    "speech in frames": (lambda: drawn(lambda source: 50 + 2950 * source.betavariate(2, 3), 4000), 3000, {}),
    "proteins at 1,024": (lambda: drawn(lambda source: source.gammavariate(2, 170) + 30, 5000), 1024, {}),
    "powers of two": (lambda: drawn(lambda source: 2 ** source.randrange(4, 13), 3000), 2048, {"today": "maximum"}),
    "one long among many": (lambda: Counter({7: 4000, 50_000: 1}), 4096, {}),
    "Azure's chats at 4,096": (lambda: published("azure-chats"), 4096, {"batch_size": 8}),
    "Azure's code at 4,096, cut": (lambda: published("azure-code"), 4096, {"overlong": "truncate"}),
    "documents with a heavy tail": (
        lambda: drawn(lambda source: min(600_000, 350 * source.paretovariate(1.1)), 4000),
        8192,
        {},
    ),
    "prompts with completions": (
        lambda: drawn(lambda source: source.randrange(200, 900) + min(700, source.lognormvariate(4, 1)), 3000),
        2048,
        {"attention": "dense"},
    ),
    "reviews at 512, padded to it": (lambda: log_normal(4.4, 0.8, 6000, 514), 512, {"today": "maximum"}),
    "images in patches": (lambda: drawn(lambda source: 16 * source.choice([16, 36, 64, 144]), 2000), 4096, {}),
    "equal, padded to the row": (lambda: Counter({700: 5000}), 2048, {"today": "maximum"}),
    "a tenth longer than the row": (lambda: tenth_longer(), 1024, {"batch_size": 16}),
    "a tenth longer than the row, cut": (lambda: tenth_longer(), 1024, {"overlong": "truncate", "batch_size": 4}),
    "millions of three lengths": (lambda: Counter({37: 3_100_000, 211: 900_000, 498: 400_001}), 512, {}),
    "two bands with a gap": (lambda: two_bands(), 2048, {"batch_size": 4}),
    "mostly longer than the row, cut": (
        lambda: drawn(lambda source: source.randint(200, 1400) + source.randint(5, 700), 4000),
        1024,
        {"overlong": "truncate", "batch_size": 4},
    ),
    "a trillion": (trillion, 2048, {}),
}
SLOW = ("a trillion", "millions of three lengths")  # whose packs are too many to be counted one by one


class Case(NamedTuple):
    """The lengths, the setting of now, whether packs are counted, and the advice as JSON, as a plan and as a page."""

    whole: Counter
    top: int
    overlong: str
    today: str
    size: int
    form: str | None  # that was asked for
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
    advice = advise(histogram_of(whole), top, **{"batch_size": 32, "accumulation": 8} | options)
    setting = {"overlong": "split", "today": "random", "batch_size": 32} | options
    said, made = json.loads(advice.to_json()), json.loads(advice.plan.to_json())
    return Case(
        whole,
        top,
        setting["overlong"],
        setting["today"],
        setting["batch_size"],
        options.get("attention"),
        request.param not in SLOW,
        said,
        made,
        Elements(page(advice)).text,
    )


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
    if habit == "maximum":
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


def about(case, subject):
    """The choice, the reason and the next best about something."""
    return next(tuple(one.values())[1:] for one in case.said["decisions"] if one["about"] == subject)


def assert_says(text, *parts):
    """The text has all of these, in this order."""
    at = 0
    for part in parts:
        assert part in text[at:], f"{part!r} is missing in {text!r}"
        at = text.index(part, at) + len(part)


def test_each_row_length(case):
    rows, step = {row["max_length"]: row for row in case.said["row_lengths"]}, 8 if case.top >= 64 else 1
    tried = {round(case.top * eighths / 8 / step) * step for eighths in (2, 4, 5, 6, 7, 9, 10, 12, 14, 16, 24, 32)}
    up = (-(-length // step) * step for length in (max(case.whole), 2 * max(case.whole)))
    tried |= {top for top in up if min(tried) <= top <= max(tried)}
    assert rows.keys() == {one for one in tried | {case.top} if one and cut(case.whole, one, case.overlong)}
    mean = tokens_of(case.whole) / case.whole.total()
    assert f"{plural(case.whole.total(), 'sequence')} of {mean:,.1f} tokens on average" in case.page
    for length, row in rows.items():
        kept = cut(case.whole, length, case.overlong)
        tokens = tokens_of(kept)
        assert row["slots"] == row["packs"] * length and row["tokens"] == tokens
        assert (row["overlong"], row["tokens_cut"]) == lost(case.whole, length, case.overlong)
        assert row["packs"] >= -(-tokens // length)
        best = best_fit(kept, length) if case.counted else row["packs"]
        planned = length in (case.top, case.said["plan"]["max_length"])
        if row["rounded"]:  # up by less than 0.1 %
            assert len(kept) > 4096 and "rounded up by less than 0.1 %" in case.page
            assert row["packs"] == pytest.approx(best, rel=0.003) or (planned and row["packs"] < best)
        else:
            assert row["packs"] == best or (planned and row["packs"] < best)
        # FLOP of a layer of Llama 3 8B: 32 heads and 8 key-value heads of 128, three matrices of 4,096 by 14,336
        linear = row["slots"] * (2 * 4096 * 128 * (2 * 32 + 2 * 8) + 6 * 4096 * 14336 + 2 * 4096)
        squares = sum(count * n**2 for n, count in kept.items())
        assert row["skipping"] == pytest.approx(32 * (linear + 2 * 4096 * squares) / tokens)
        assert row["dense"] == pytest.approx(32 * (linear + 4 * 4096 * row["packs"] * length**2) / tokens)
        shown = (f"{length:,}", f"{row['packs']:,}", f"{row['slots']:,}", f"{row['overlong']:,}")
        assert all(number in case.page for number in shown) or not case.said["gains"]


def less(work, base):
    off = work / base - 1
    return "the same work" if abs(off) < 0.00005 else f"{percent(abs(off))} {'more' if off > 0 else 'less'} work"


def test_the_row_length_that_is_chosen(case):
    """The shortest within 2 % of the least work per token, of the rows that cut no more tokens than that of now."""
    top, rows = case.top, {row["max_length"]: row for row in case.said["row_lengths"]}
    now = rows[top]
    slots = {length: row["slots"] / row["tokens"] for length, row in rows.items()}
    fair = [length for length in sorted(rows) if rows[length]["tokens_cut"] <= now["tokens_cut"]]
    of_forms = {form: {n: row[form] for n, row in rows.items()} for form in ("skipping", "dense")}
    best = {
        form: next(length for length in fair if work[length] <= 1.02 * min(work[other] for other in fair))
        for form, work in of_forms.items()
    }
    saved = 1 - of_forms["skipping"][best["skipping"]] / of_forms["dense"][best["dense"]]
    assert case.said["form"] == (case.form or ("bounds" if saved >= 0.05 else "dense"))
    form = "skipping" if case.said["form"] == "bounds" else "dense"
    work, chosen = of_forms[form], best[form]
    assert case.said["plan"]["max_length"] == chosen
    if not case.said["gains"]:
        return
    choice, reason, other = about(case, "Row length")
    if len(fair) == 1:
        assert_says(reason, f"the only one of {plural(len(rows), 'length')} tried")
    else:
        assert_says(reason, "within 2.0 % of the least work per token", f"of {len(fair)} lengths tried")
    more = "less" if saved >= 0 else "more"
    assert_says(case.page, f"a token takes {percent(abs(saved))} {more} work in the layers".replace(" %", "\xa0%"))
    if chosen == top:
        assert choice == f"Keep rows of {top:,} tokens"
    else:
        assert choice == f"Take rows of {chosen:,} tokens instead of {top:,}"
        assert_says(reason, f"A token takes {less(work[chosen], work[top])}", f"in rows of {top:,}")
        full, before = percent(1, slots[chosen]), percent(1, slots[top])
        assert_says(reason, f"{full} full instead of {before}." if full != before else f"{full} full, as those are.")
    if others := [length for length in fair if length != chosen]:
        best = min(others, key=lambda length: work[length])
        assert_says(other, f"{best:,} tokens: {less(work[best], work[chosen])} per token")
        of_each = (
            slots if rows[best]["tokens"] != rows[chosen]["tokens"] else {n: row["slots"] for n, row in rows.items()}
        )
        assert_says(other, than(of_each[best], of_each[chosen], "slots"))


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
    gap = packs - plan["lower_bound"]
    assert gap <= max(1, 0.001 * plan["lower_bound"]) or "optimal" in [one["method"] for one in case.said["methods"]]
    if not case.said["gains"]:
        return
    choice, reason, runner_up = about(case, "Method")
    assert choice.startswith(f"Pack with {plan['method']}") and choice.endswith(f": {plural(packs, 'pack')}")
    assert_says(reason, f"The packs are {percent(tokens, packs * top)} full.")
    saved = f"At least {plan['lower_bound']:,} are needed, so at most {percent(gap, packs)} could still be saved."
    assert reason.endswith(saved if gap else "This is the proven minimum.")
    other = case.said["methods"][1]
    assert runner_up.startswith(other["method"])
    assert runner_up.endswith(f": {than(other['packs'], packs, 'packs')}, {other['packs']:,}.")


HABITS = {
    "random": "andom batches, each padded to its longest sequence,",
    "sorted": "orted batches, each padded to its longest sequence,",
    "maximum": "atches padded to the row length",
}


def test_what_it_brings_against_today(case):
    rows, size, today = cut(case.whole, case.top, case.overlong), case.size, case.today
    slots, packed = {habit: slots_of(rows, habit, size, case.top) for habit in HABITS}, case.said["plan"]["slots"]
    assert case.said["today"]["slots"] == pytest.approx(slots[today]) and case.said["today"]["rows"] == rows.total()
    others = {habit: count for habit, count in slots.items() if habit != today}
    assert {one["habit"]: one["slots"] for one in case.said["habits"]} == pytest.approx(others)
    held, kept = tokens_of(rows), tokens_of(cut(case.whole, case.said["plan"]["max_length"], case.overlong))
    fair = packed * held / kept if kept != held else packed  # longer rows may keep more tokens
    (choice, reason, runner_up), saved = about(case, "Your batches"), slots[today] - fair
    suffices = today == "maximum" and saved > 0.02 * slots[today] and slots["random"] - fair <= 0.02 * slots["random"]
    assert case.said["gains"] == (saved > 0.02 * slots[today] and not suffices)
    name = HABITS[today].replace("batches", f"batches of {size:,}") if today != "maximum" else HABITS[today]
    assert_says(reason, name, f"take {large(slots[today])} slots")
    if kept != held:
        assert_says(reason, f"slots for {held:,} tokens", f"{large(packed)} for {kept:,} tokens")
    if suffices:
        assert choice.startswith("Do not pack: pad each batch") and len(case.said["decisions"]) == 1
        assert_says(reason, "andom batches", f"take {large(slots['random'])}", f"would take {large(packed)}")
        return
    if not case.said["gains"]:
        longer, moved = lost(case.whole, case.top, case.overlong)
        share = percent(longer, case.whole.total())
        assert (f"({share}) {'is' if longer == 1 else 'are'} longer than {case.top:,}" in reason) == (longer > 0)
        assert f"{moved:,} token" in reason or not longer
        assert choice == "Nothing to gain: do not pack" and len(case.said["decisions"]) == 1
        amount = f"{percent(abs(saved), slots[today])} {'more' if saved < 0 else 'fewer'}"
        if kept != held:
            amount = than(fair, slots[today], "slots")
        assert_says(reason, f"{plural(case.said['plan']['packs'], 'pack')} of", amount if saved else "the same number")
        return
    gain = f", {large(packed)} instead of {large(slots[today])}" if kept == held else " for each token that is kept"
    assert choice == f"Pack them: {percent(saved, slots[today])} fewer slots{gain}"
    other = "sorted" if today != "sorted" else "random"
    more = than(slots[other], fair, "slots")
    taken = large(slots[other]) if kept == held else "the packs for each token that is kept"
    assert_says(runner_up, HABITS[other].replace("batches", f"batches of {size:,}"), f"take {more}", taken)
    if other == "sorted" and rows.total() > size:
        ordered, whole = sorted(rows.elements()) if rows.total() < 10**6 else [], rows.total() // size * size
        if ordered:
            narrow, wide = size * ordered[size - 1], size * ordered[whole - 1]
            widths = f"{narrow:,} to {wide:,}" if narrow < wide else f"{wide:,}"
            assert f"a whole batch takes {widths} slots." in runner_up


def test_the_update(case):
    before, after, plan = case.said["update"]["before"], case.said["update"]["after"], case.said["plan"]
    assert before["micro_batch"] == case.size
    slots = case.said["today"]["slots"] / -(-case.said["today"]["rows"] // case.size)
    assert case.said["update"]["most"] == max(1, int(slots // plan["max_length"]))
    chosen = after["micro_batch"], after["gradient_accumulation_steps"]
    steps = before["gradient_accumulation_steps"]
    sequences, wanted = math.prod(chosen) * plan["packing_factor"], steps * case.size
    assert case.said["update"]["off"] == pytest.approx(sequences / wanted - 1, abs=1e-8)
    assert math.prod(chosen) <= plan["packs"]
    if not case.said["gains"]:
        return
    choice, reason, runner_up = about(case, "Packs per update")
    assert choice == f"Take {chosen[0]:,} × {chosen[1]:,} packs"
    assert case.said["recipe"] is None and "learning rate and betas stay" in reason.replace("Learning", "learning")
    held = f"An update has {sequences:,.1f} sequences instead of {wanted:,} ({signed(sequences / wanted - 1)})"
    updates = -(-plan["packs"] // math.prod(chosen))
    if plan["packs"] <= wanted / plan["packing_factor"]:
        pieces = cut(case.whole, plan["max_length"], case.overlong).total()
        held = f"{wanted:,} sequences, and one pass over the data has {pieces:,}"
    assert_says(reason, held, f"One epoch takes {plural(updates, 'update')}.", f"the {slots:,.0f} slots of an average")
    assert case.said["update"]["updates"] == updates
    if other := re.match(r"([\d,]+) × ([\d,]+): (.* sequences), ", runner_up):
        packs = math.prod(int(count.replace(",", "")) for count in other.groups()[:2])
        assert other[3] == than(packs * plan["packing_factor"] / wanted, 1.0, "sequences")


def test_what_is_longer_than_a_row(case):
    overlong, top, tokens = case.overlong, case.said["plan"]["max_length"], tokens_of(case.whole)
    longer, moved = lost(case.whole, top, overlong)
    if not case.said["gains"]:
        return
    choice, reason, runner_up = about(case, "Longer sequences")
    of_today = lost(case.whole, case.top, overlong)[1]
    first = (
        "Longer sequences" if moved > 0.02 * tokens else "Row length" if of_today > 0.02 * tokens else "Your batches"
    )
    assert case.said["decisions"][0]["about"] == first
    if of_today > moved:  # rows that are longer cut less
        cut_less = about(case, "Row length")[1]
        assert_says(cut_less, percent(moved, tokens) if moved else "none", f" {percent(of_today, tokens)}")
    if not longer:
        assert choice == "None is longer than a row"
        assert_says(reason, f"The longest sequence has {plural(max(case.whole), 'token')}.")
        return
    share = f"{plural(longer, 'sequence')} of {case.whole.total():,} ({percent(longer, case.whole.total())})"
    assert_says(reason, f"{share} {'is' if longer == 1 else 'are'} longer than {top:,}, and {moved:,} tokens")
    if overlong == "split":
        assert choice == "Split them into further pieces: no token is lost"
    else:
        assert f"{percent(moved, tokens)} of the tokens are lost" in choice
    for rule, verb in (("truncate", "Truncating"), ("drop", "Dropping")):
        if rule != overlong:
            assert f"{verb} them loses {percent(lost(case.whole, top, rule)[1], tokens)} of the tokens." in runner_up
    if overlong != "split" and case.counted and case.said["plan"]["method"] == "lpfhp":
        packs = best_fit(cut(case.whole, top, "split"), top)
        assert f"loses no token: {than(packs, case.said['plan']['packs'], 'packs')}, {packs:,}." in runner_up


def test_a_source_that_was_not_cut():
    whole = LengthHistogram([0, 5, 0, 7])
    for source, sizes in ((whole, "12 sequences and 26 tokens"), ([1, 2], "2 sequences and 3 tokens")):
        said = next(one for one in advise(whole, source=source).decisions if one.about == "Longer sequences").reason
        assert_says(said, "no more sequences longer than 3 than the data, so none was cut before.")
        assert said.endswith(f"It has {sizes}, and the data has 12 and 26.")
