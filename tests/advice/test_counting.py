"""Every number of the advice, counted again by a second and simpler program, on three sets of these tests' own making.

Here are only loops, `Counter` and Python's own numbers: nothing of packlib computes what is compared.
"""

import ast
import json
import math
import re
import sysconfig
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from packlib.advice import advise
from packlib.advice.records import recorded
from packlib.lengths import LengthHistogram


def functions(most):
    """Words and marks of the first functions of Python's standard library."""
    lengths = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                lengths.append(len(re.findall(r"\w+|[^\w\s]", ast.get_source_segment(source, node))))
        if len(lengths) >= most:
            break
    return Counter(lengths[:most])


def log_normal():
    """Two million lengths, most of them far below 8,192."""
    drawn = np.random.default_rng(0).normal(6.0, 1.2, 2_000_000)
    return Counter(np.maximum(1, np.exp(drawn)).astype(int).clip(max=60_000).tolist())


def trillion():
    """10^12 sequences, of which each length has fewer than the one below."""
    shares = [math.exp(-length / 300) for length in range(1, 2049)]
    counts = Counter({length: int(share / sum(shares) * 10**12) for length, share in enumerate(shares, 1)})
    counts[1] += 10**12 - counts.total()
    return counts


SETS = {  # the lengths, the maximum, and seconds for each method
    "some functions at 512": (lambda: functions(1200), 512, 1),
    "functions at 512": (lambda: functions(10**6), 512, 5),
    "2 million log-normal at 8,192": (log_normal, 8192, 5),
    "a trillion": (trillion, 2048, 5),
}


@pytest.fixture(
    scope="module",
    params=[name if name.startswith("some") else pytest.param(name, marks=pytest.mark.slow) for name in SETS],
)
def case(request):
    """The lengths as they are and cut, the maximum, the advice as JSON, its plan as JSON, and its sentences."""
    make, top, patience = SETS[request.param]
    whole = make()
    cut = Counter()
    for length, count in whole.items():
        cut[min(length, top)] += count
    given = LengthHistogram([whole[length] for length in range(max(whole) + 1)])
    advice = advise(given.with_max_length(top, "truncate"), patience=patience, whole=given)
    said = json.loads(advice.to_json())
    return whole, cut, top, said, json.loads(advice.plan.to_json()), " ".join(said["advice"])


def tokens_of(counts):
    return sum(length * count for length, count in counts.items())


def percent(part, whole):
    value = 100 * part / whole
    if 0 < value < 0.005:
        return "under 0.01 %"
    if 99.995 <= value < 100:
        return "over 99.99 %"
    return f"{value:.2f} %" if 0 < value < 1 or 99 < value < 100 else f"{value:.1f} %"


def test_what_is_cut_and_padded(case):
    whole, cut, top, said, _, words = case
    longer = sum(count for length, count in whole.items() if length > top)
    lost, slots = tokens_of(whole) - tokens_of(cut), cut.total() * top
    assert said["data"]["sequences"] == whole.total() == cut.total()
    assert (said["data"]["tokens"], said["data"]["tokens_lost"]) == (tokens_of(cut), lost)
    assert f"{whole.total():,} sequences of {tokens_of(cut) / whole.total():.1f} tokens on average" in words
    assert f"Padded to the maximum, {percent(slots - tokens_of(cut), slots)} of the slots hold nothing" in words
    if longer:
        assert f"{longer:,} sequences ({percent(longer, whole.total())}) are longer than {top:,} tokens" in words
        assert f"which loses {percent(lost, tokens_of(whole))} of the tokens" in words


def test_the_plan_holds_each_sequence_once(case):
    _, cut, top, said, plan, words = case
    held, packs = Counter(), 0
    for lengths, repeats in zip(plan["strategies"], plan["repeats"], strict=True):
        assert sum(lengths) <= top and len(lengths) <= said["plan"]["depth"]
        packs += repeats
        for length in lengths:
            held[length] += repeats
    assert held == +cut and packs == said["plan"]["packs"] >= -(-tokens_of(cut) // top)
    assert said["plan"]["packing_factor"] == pytest.approx(cut.total() / packs)
    assert f"{packs:,} packs, {cut.total() / packs:.2f} sequences in each" in words
    gap = said["plan"]["gap"]
    assert ("proven the fewest" if gap == 0 else f"at most {gap:,} above the fewest") in words
    if plan["duals"]:  # prices at which no pack is worth more than one bound how few packs there can be
        worth = sum(count * plan["duals"][length] for length, count in cut.items())
        best = most_valuable(plan["duals"], top, said["plan"]["depth"]) if top <= 512 else None
        assert best is None or packs - gap <= max(math.ceil(Fraction(worth, best)), -(-tokens_of(cut) // top))


def most_valuable(prices, top, depth):
    """What the most valuable pack is worth: the classic table, for each number of sequences."""
    sold = [length for length, price in enumerate(prices) if price > 0]
    best = [0] * (top + 1)
    for _ in range(depth):
        best = [max([best[s], *(best[s - n] + prices[n] for n in sold if n <= s)]) for s in range(top + 1)]
    return best[top]


def test_the_trade_off_of_depth(case):
    _, cut, top, said, _, words = case
    area, last = -(-tokens_of(cut) // top), said["depths"][-1]["packs"]
    packs = [trial["packs"] for trial in said["depths"]]
    assert packs == sorted(packs, reverse=True)
    for trial in said["depths"]:
        assert trial["packs"] >= trial["bound"] >= max(area, -(-cut.total() // (trial["depth"] or cut.total())))
    for depth, more in said["more_packs"].items():
        (trial,) = [trial for trial in said["depths"] if trial["depth"] == int(depth)]
        assert more == trial["packs"] / last - 1
    enough = min(trial["depth"] for trial in said["depths"] if trial["depth"] and trial["packs"] <= 1.005 * last)
    assert said["plan"]["depth"] == enough and f"Depth {enough} is the smallest" in words
    chosen = next(trial["packs"] for trial in said["depths"] if trial["depth"] == enough)
    assert chosen == said["plan"]["packs"] and f"of the {last:,} packs without a limit" in words
    assert f"depth {enough}: +{percent(chosen - last, last)}" in words


def test_the_habits_and_the_speed(case):
    _, cut, top, said, _, words = case
    n, packed = cut.total(), said["plan"]["packs"] * top
    slots = {"maximum": n * top, "sorted": 0, "random": 0.0}
    before = 0
    for length in sorted(cut):  # batches of 32, from short to long; a batch ends with its longest
        full = (before + cut[length]) // 32 - before // 32
        slots["sorted"] += 32 * full * length
        before += cut[length]
    slots["sorted"] += n % 32 * max(cut)
    below, shorter = 0, 0.0
    for length in sorted(cut):  # how likely the longest of 32 is at most so long
        below += cut[length]
        likely = math.prod((below - i) / (n - i) for i in range(32)) if below >= 32 else 0.0
        slots["random"] += (likely - shorter) * length * n
        shorter = likely
    found = {habit["habit"]: habit for habit in said["habits"]}
    known = [one for one in said["overheads"] if top / 2 <= one["max_length"] <= 2 * top]
    low, high = (max(one["highest"] for one in known), min(one["usual"] for one in known)) if known else (0, 0)
    for habit, count in slots.items():
        near = 0.02 if habit == "random" else 1e-9  # the last batch is smaller
        assert 1 - found[habit]["padding"] == pytest.approx(tokens_of(cut) / count, rel=near)
        wanted = [count / packed * (1 - low), count / packed * (1 - high)]
        assert found[habit]["speedup"] == pytest.approx(wanted, rel=near)
    slow, fast = found["maximum"]["speedup"]
    told = f"at most {fast:.2f}" if slow == fast else f"about {slow:.2f}"
    told = told if slow == fast or f"{slow:.2f}" == f"{fast:.2f}" else f"{slow:.2f} to {fast:.2f}"
    assert f"is {told} times that of padding to the maximum" in words


def test_attention_places_buckets_and_compiling(case):
    _, cut, top, said, plan, words = case
    n, packs = cut.total(), said["plan"]["packs"]
    pairs = sum(count * length**2 for length, count in cut.items())
    assert f"{percent(pairs, packs * top**2)} of the pairs of slots in a row are within one sequence" in words
    scores = 4 * top * 1024  # FLOP a token and layer, of 24 * 1024^2 besides
    saved = scores * (1 - pairs / (packs * top**2)) / (scores + 24 * 1024**2)
    assert f"saves {percent(saved, 1)} of a layer's work" in words
    assert ("FlashAttention" in words) == (saved >= 0.05)
    places = max(map(len, plan["strategies"])) * packs
    assert f"{places:,} places for {n:,} sequences, {percent(places - n, places)} of them empty" in words
    pooler = (places - n) * 2 * 1024**2 / (packs * top * (scores + 24 * 1024**2))
    assert f"A pooler in the empty ones adds {percent(pooler, 1)} of a layer's work" in words
    padded, edges = 0, said["buckets"]["lengths"]
    for length, count in cut.items():
        padded += count * next(edge for edge in edges if edge >= length)
    assert edges[-1] == top and said["buckets"]["padding"] == pytest.approx(1 - tokens_of(cut) / padded)
    assert f"{percent(padded - tokens_of(cut), padded)} of the slots stay padding" in words
    rows = [row for row in recorded("compiling_shapes").rows if row["run"] == "static" and row["batches"] != "packed"]
    each = sorted(row["compile seconds"] / row["graphs"] for row in rows)
    assert f"would take {len(edges) * each[0]:.0f} to {len(edges) * each[-1]:.0f} s" in words


def test_the_recipe_and_its_updates(case):
    _, cut, _, said, _, words = case
    before, after = said["recipe"]["before"], said["recipe"]["after"]
    n, packs = cut.total(), said["plan"]["packs"]
    rows = after["micro_batch"] * after["gradient_accumulation_steps"]
    wanted = before["micro_batch"] * before["gradient_accumulation_steps"]
    assert before["total_sequences"] == after["total_sequences"] == (10 * n if n <= 10**6 else max(n, 10**7))
    off = rows * n / packs / wanted - 1
    assert abs(off) <= 0.02 or after["betas"] != before["betas"]
    assert before["micro_batch"] >= after["micro_batch"] >= before["micro_batch"] / 2 or abs(off) > 0.02
    updates = math.ceil(after["total_sequences"] * packs / n / rows - 1e-9)
    passes = after["total_sequences"] / n
    assert f"One pass over the data is {packs / rows:,.1f} updates of {rows:,} pack" in words
    assert f"are {passes:,.2f} passes and {updates:,} updates" in words


def test_no_number_is_said_that_is_not_counted_here(case):
    """The sentences of the advice are those that the tests above know; a new one needs a count of its own."""
    openings = ("lengths: ", "Pack with", "The expected speed", "Take ", "Depth ", "With static shapes", "If you pad ",
                "With the example recipe", "One pass over")  # fmt: skip
    *_, said, _, _ = case
    about = [one for one in said["advice"] if not one.startswith(openings)]
    assert len(about) == 1 and re.search(r"are longer than|No sequence is longer than|may have been cut", about[0])
