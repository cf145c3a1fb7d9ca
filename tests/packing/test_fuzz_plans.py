"""A thousand damaged plans: each is refused in one sentence that names the file, or read as the plan it now is."""

import json
import random
from collections import Counter

from packlib.lengths import LengthHistogram
from packlib.markup import one_line
from packlib.packing import PackingPlan, plan

ODD = (
    0, -1, -8, 1, 2, 1.9, 5.0, -0.5, 1e300, 2**31, 2**62, 2**63 - 1, 2**63, 2**64, 10**15, 10**30, 10**400, "", "<b>",
    "5", "٣", None, True, False, [], [1], {}, {"a": 1}, float("nan"), float("-inf"), [[[[1]]]], "x" * 5000,
)  # fmt: skip


def originals():
    few = LengthHistogram.from_lengths([4, 4, *[3] * 7], 8, name="few")  # sums prove four packs, and prices five
    many = LengthHistogram([0, 3 * 10**15, 0, 10**16, 4], "many", 12, "synthetic", truncated=3)
    made = [
        plan(few, method="optimal", max_sequences_per_pack=3),
        plan(few, method="lpfhp"),
        plan(many, method="optimal", max_sequences_per_pack=3),
        plan(many, method="unpacked"),
    ]
    assert made[0].prices is not None
    return [packing.to_json() for packing in made]


def places(value, at=()):
    """Every place in a JSON value, as the keys that lead there."""
    yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from places(part, (*at, key))


def changed(raw, at, change):
    """A copy of a JSON value in which `change` did its work on the container of one place."""
    copy = json.loads(json.dumps(raw))
    parent = copy
    for key in at[:-1]:
        parent = parent[key]
    change(parent, at[-1])
    return json.dumps(copy)


def replace_value(text, rng):
    raw, new = json.loads(text), rng.choice(ODD)
    return changed(raw, rng.choice([*places(raw)][1:]), lambda parent, key: parent.__setitem__(key, new))


def change_number(text, rng):
    raw, by = json.loads(text), rng.choice((-1, 1, 2**62, 2**63, 2**64, -(2**64), 10**18))

    def add(parent, key):
        parent[key] = parent[key] + by if isinstance(parent[key], int) else by

    return changed(raw, rng.choice([*places(raw)][1:]), add)


def remove(text, rng):
    raw = json.loads(text)
    return changed(raw, rng.choice([*places(raw)][1:]), lambda parent, key: parent.__delitem__(key))


def repeat(text, rng):
    raw = json.loads(text)
    key = rng.choice([*raw, *raw["histogram"]])
    member = f'"{key}": {json.dumps(raw.get(key, raw["histogram"].get(key)))}'
    return text.replace(member, f"{member}, {member}", 1)


def swap(text, rng):
    """Two numbers of one list change places: what is exchanged adds up as before."""
    raw = json.loads(text)
    lists = [raw["repeats"], raw["histogram"]["lengths"], raw["histogram"]["counts"], *raw["strategies"]]
    numbers = rng.choice(lists)
    one, other = rng.randrange(len(numbers)), rng.randrange(len(numbers))
    numbers[one], numbers[other] = numbers[other], numbers[one]
    return json.dumps(raw)


def flip_bits(text, rng):
    data = bytearray(text, "utf-8")
    for _ in range(rng.choice((1, 1, 1, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def cut(text, rng):
    start, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    return rng.choice((text[:end], text[start:], text[:start] + text[end:]))


def nest(text, rng):
    raw, deep = json.loads(text), rng.choice((50, 5_000, 100_000))
    start, end = rng.choice((("[", "]"), ('{"a":', "}")))
    at = rng.choice([*places(raw)][1:])
    marked = changed(raw, at, lambda parent, key: parent.__setitem__(key, "HERE"))
    return marked.replace('"HERE"', start * deep + "1" + end * deep)


def write_numbers_otherwise(text, rng):
    """Digits are replaced by what other languages take for a number."""
    digits = [i for i, letter in enumerate(text) if letter.isdigit()]
    at = rng.choice(digits)
    odd = ("1_0", "0x1", "1e2", "01", "+1", "NaN", "Infinity", "1" * 5000, "٣", "1.0", "-0")
    return text[:at] + rng.choice(odd) + text[at + 1 :]


DAMAGES = (
    replace_value, replace_value, change_number, remove, repeat, swap, flip_bits, cut, nest, write_numbers_otherwise,
)  # fmt: skip


def check_by_hand(made, raw):
    """The plan is what the text says, and packs each sequence once; with Python's integers only."""
    wanted = Counter()
    for length, count in zip(raw["histogram"]["lengths"], raw["histogram"]["counts"], strict=True):
        assert type(length) is type(count) is int and 1 <= length <= raw["histogram"]["max_length"]
        wanted[length] += count
    packed, packs = Counter(), 0
    for strategy, repeats in zip(raw["strategies"], raw["repeats"], strict=True):
        assert type(repeats) is int and repeats >= 1
        assert 1 <= sum(strategy) <= raw["histogram"]["max_length"]
        assert len(strategy) <= (raw["max_sequences_per_pack"] or len(strategy))
        packs += repeats
        for length in strategy:
            assert type(length) is int
            packed[length] += repeats
    assert packed == +wanted and packs == raw["num_packs"] == made.num_packs
    tokens = sum(length * count for length, count in wanted.items())
    assert tokens <= made.num_packs * raw["histogram"]["max_length"]
    assert -(-tokens // raw["histogram"]["max_length"]) <= made.lower_bound <= packs
    assert made.histogram.num_tokens == tokens and made.histogram.num_sequences == packed.total()
    assert [list(strategy) for strategy in made.strategies] == raw["strategies"]
    assert made.repeats.tolist() == raw["repeats"]
    assert made.histogram.name == one_line(raw["histogram"]["name"])
    for name in ("kind", "source", "max_length", "truncated", "dropped"):
        assert getattr(made.histogram, name) == raw["histogram"][name]
        assert type(getattr(made.histogram, name)) is type(raw["histogram"][name])


def test_a_thousand_damaged_plans(tmp_path):
    rng = random.Random(0)
    path = tmp_path / "plan.json"
    texts, read = originals(), 0
    for number in range(1000):
        damage = DAMAGES[number % len(DAMAGES)]
        damaged = damage(rng.choice(texts), rng)
        path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
        try:
            made = PackingPlan.from_json(path)
        except ValueError as refusal:
            said = str(refusal)
            assert said.startswith(f"{path} is no packing plan: "), said
            assert "\n" not in said and len(said) < 700, said
            assert said.endswith((".", "?")) or "utf-8" in said, said
        else:
            check_by_hand(made, json.loads(path.read_text(encoding="utf-8")))
            assert PackingPlan.from_json(made.to_json()).to_json() == made.to_json()
            read += 1
    assert 10 < read < 200  # some changes make another plan that is right
