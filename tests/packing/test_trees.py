"""Trees of what sequences share: found by content, every sequence once, near the fewest rows, above a true bound."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from packlib.packing import group_trees, pack_tree_lengths, pack_trees, plan
from packlib.packing.search.group_bound import group_bound
from packlib.packing.search.tree_bound import forced_copies, tree_bound
from packlib.packing.trees import Trees, shared_trees

small_sequences = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=7), min_size=1, max_size=9)


def prefixes(sequences, groups):
    """How many different beginnings the sequences of all groups have: the tokens of their trees."""
    pairs = zip(sequences, groups, strict=True)
    return len({(group, *one[:n]) for one, group in pairs for n in range(1, len(one) + 1)})


def slots_of(sequences):
    """The slots of some sequences of one group in a row, from the drawing alone: each beginning once, and the heads.

    The token before a fork is at the head of each branch behind it, and not at its own place.
    """
    beginnings = {tuple(one[:n]) for one in sequences for n in range(1, len(one) + 1)}
    behind = {}
    for one in beginnings:
        behind.setdefault(one[:-1], []).append(one)
    return len(beginnings) + sum(len(own) - 1 for fork, own in behind.items() if fork)


def fewest_rows(sequences, groups, max_length):
    """By trying all ways to put sequences into rows."""
    number = len(sequences)
    fits = [False] * (1 << number)
    for chosen in range(1, 1 << number):
        by_group = {}
        for at in range(number):
            if chosen >> at & 1:
                by_group.setdefault(groups[at], []).append(sequences[at])
        fits[chosen] = sum(map(slots_of, by_group.values())) <= max_length
    best = [0] + [number] * ((1 << number) - 1)
    for chosen in range(1, 1 << number):
        one = chosen & -chosen
        rest = others = chosen ^ one
        while True:
            if fits[others | one]:
                best[chosen] = min(best[chosen], best[rest ^ others] + 1)
            if not others:
                break
            others = (others - 1) & rest
    return best[-1]


def fewest_rows_by_highs(sequences, groups, max_length, most_rows):
    """By an integer program: which sequence is in which row, and which beginnings a row then holds.

    A fork, a beginning that goes on in several ways, takes a slot for each way in the row but one.
    """
    named = [(group, tuple(one)) for group, one in zip(groups, sequences, strict=True)]
    beginnings = sorted({(group, one[:n]) for group, one in named for n in range(1, len(one) + 1)})
    at = {beginning: number for number, beginning in enumerate(beginnings)}
    behind = {}
    for group, one in beginnings:
        if len(one) > 1:
            behind.setdefault((group, one[:-1]), []).append(at[group, one])
    forks = [ways for ways in behind.values() if len(ways) > 1]
    held, heads = len(named), len(named) + len(beginnings)  # where the columns of a row begin, by kind
    width = heads + len(forks) + 1  # the last says whether the row is used
    lines, lower, upper = [], [], []

    def add(entries, least, most):
        line = np.zeros(width * most_rows)
        for column, value in entries:
            line[column] += value
        lines.append(line)
        lower.append(least)
        upper.append(most)

    for sequence in range(len(named)):
        add([(row * width + sequence, 1) for row in range(most_rows)], 1, 1)
    for begin in range(0, width * most_rows, width):
        for sequence, (group, one) in enumerate(named):
            for n in range(1, len(one) + 1):
                add([(begin + sequence, 1), (begin + held + at[group, one[:n]], -1)], -np.inf, 0)
        for fork, ways in enumerate(forks):
            add([(begin + heads + fork, -1), *((begin + held + way, 1) for way in ways)], -np.inf, 1)
        slots = [(begin + column, 1) for column in range(held, width - 1)]
        add([*slots, (begin + width - 1, -max_length)], -np.inf, 0)
    cost = np.zeros(width * most_rows)
    cost[width - 1 :: width] = 1
    is_whole = np.ones(width * most_rows)
    for begin in range(0, width * most_rows, width):
        is_whole[begin + heads : begin + width - 1] = 0  # a count of heads follows from the beginnings
    most = np.ones(width * most_rows)
    most[is_whole == 0] = np.inf
    for row in range(most_rows):  # rows have no order: the first sequence is in the first, the second in one of two
        most[row * width : row * width + min(row, len(named))] = 0
    found = milp(
        cost, integrality=is_whole, bounds=Bounds(0, most), constraints=LinearConstraint(np.array(lines), lower, upper)
    )
    assert found.success, found.message
    return round(found.fun)


def drawn_tree(rng, depth, begin=()):
    """Sequences that branch at random; each branch begins with a token of its own."""
    own = [*begin, *rng.choices(range(5), k=rng.randint(1, 9))]
    if not depth or rng.random() < 0.2:
        return [own]
    branches = rng.choice([1, 2, 2, 3])
    return [one for k in range(branches) for one in drawn_tree(rng, depth - 1, [*own, 10 + k])]


def drawn_trees(rng, most_leaves, most_nodes=99):
    while True:
        each = [drawn_tree(rng, 3) for _ in range(rng.randint(1, 3))]
        sequences = [one for own in each for one in own]
        groups = [at for at, own in enumerate(each) for _ in own]
        if 3 < len(sequences) <= most_leaves and len(shared_trees(sequences, groups).parents) <= most_nodes:
            longest = max(map(len, sequences))
            return sequences, groups, rng.randint(longest, 2 * longest)


@given(small_sequences, st.randoms(use_true_random=False))
def test_a_tree_has_each_beginning_once(sequences, rng):
    groups = [rng.randint(0, 1) for _ in sequences]
    trees = shared_trees(sequences, groups)
    assert trees.tokens.sum() == prefixes(sequences, groups)
    children = np.bincount(trees.parents[trees.parents >= 0], minlength=len(trees.parents))
    assert not (children == 1).any()
    assert set(np.flatnonzero(children == 0).tolist()) == set(trees.leaves.tolist())
    assert (trees.parents < np.arange(len(trees.parents))).all()
    pack_trees(sequences, groups, 99, tries=0).verify(sequences)


@given(small_sequences, st.integers(0, 9), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_every_sequence_is_in_one_row_and_no_row_is_too_long(sequences, more, seed):
    groups = [len(one) % 2 for one in sequences]
    top = max(map(len, sequences)) + more
    rows = pack_trees(sequences, groups, top, tries=2, seed=seed)
    assert sorted(np.concatenate(list(rows)).tolist()) == list(range(len(sequences)))
    for row, used in zip(rows, rows.lengths_used.tolist(), strict=True):
        by_group = {}
        for at in row.tolist():
            by_group.setdefault((groups[at], sequences[at][0]), []).append(sequences[at])
        assert sum(map(slots_of, by_group.values())) == used <= top
    assert rows.unshared_tokens == sum(map(len, sequences))


def test_the_rows_are_the_fewest_in_99_of_100_small_draws():
    rng = random.Random(4)
    above, draws = 0, 200
    for _ in range(draws):
        sequences, groups, top = drawn_trees(rng, most_leaves=9, most_nodes=12)
        rows = pack_trees(sequences, groups, top)
        best = fewest_rows(sequences, groups, top)
        assert rows.lower_bound <= best <= len(rows) <= best + 1
        above += len(rows) > best
    assert above <= draws // 100


def test_an_integer_program_agrees_with_brute_force_and_with_the_rows_of_larger_draws():
    """Two oracles that have nothing in common, and more sequences than brute force can take."""
    rng = random.Random(8)
    for _ in range(10):
        sequences, groups, top = drawn_trees(rng, most_leaves=8, most_nodes=12)
        rows = pack_trees(sequences, groups, top)
        assert fewest_rows_by_highs(sequences, groups, top, len(rows)) == fewest_rows(sequences, groups, top)
    above = larger = 0
    while larger < 12:
        sequences, groups, top = drawn_trees(rng, most_leaves=14, most_nodes=30)
        rows = pack_trees(sequences, groups, top, tries=0)
        if len(sequences) < 10 or not 1 < len(rows) <= 4:
            continue
        larger += 1
        rows = pack_trees(sequences, groups, top)
        best = fewest_rows_by_highs(sequences, groups, top, len(rows))
        assert rows.lower_bound <= best <= len(rows) <= best + 1
        above += len(rows) > best
    assert above <= 1


def test_no_bound_is_above_the_fewest_rows():
    rng, equal, draws = random.Random(5), 0, 40
    for _ in range(draws):
        sequences, groups, top = drawn_trees(rng, most_leaves=9)
        trees = shared_trees(sequences, groups)
        best = fewest_rows(sequences, groups, top)
        forced, bound = tree_bound(trees, top, by_prices=False), tree_bound(trees, top)
        assert forced <= bound <= best
        equal += bound == best
    assert equal > 0.8 * draws  # and it is worth something


def test_the_bound_by_prices_of_parts_is_never_above_the_fewest_rows_of_groups():
    rng, equal, draws = random.Random(6), 0, 60
    for _ in range(draws):
        number = rng.randint(1, 4)
        prompts = [rng.randint(2, 12) for _ in range(number)]
        answers = [[rng.randint(1, 9) for _ in range(rng.randint(2, 3))] for _ in prompts]
        top = max(prompt + max(own) for prompt, own in zip(prompts, answers, strict=True)) + rng.randint(0, 9)
        shared, branches = np.array(prompts) - 1, [[n + 1 for n in own] for own in answers]
        columns = np.array([[sum(own), min(own), len(own)] for own in branches]).T
        found = group_bound(shared, *columns, top)
        sequences = []
        for group, (prompt, own) in enumerate(zip(prompts, answers, strict=True)):
            sequences += [[group] * prompt + [99 - at] + [7] * (length - 1) for at, length in enumerate(own)]
        groups = [group for group, own in enumerate(answers) for _ in own]
        best = fewest_rows(sequences, groups, top)
        assert found <= best
        equal += found == best
    assert equal > 0.8 * draws


def test_how_often_a_node_must_be_repeated_is_counted_from_the_leaves_up():
    # 6 shared slots leave 8 of 14 for branches of 4: 3 branches need 2 rows
    copies = forced_copies(group_trees([7], [[3, 3, 3]]), 14)
    assert copies.rows.tolist() == [2, 1, 1, 1] and copies.below.tolist() == [12, 0, 0, 0]
    # a root of 4 - 1, and below it a node of 5 with two leaves of 6 + 1 and a leaf of 2 + 1; rows of 16
    trees = Trees(np.array([-1, 0, 1, 1, 0]), np.array([4, 5, 6, 6, 2]), np.array([2, 3, 4]), np.array([15, 15, 6]))
    assert trees.slots.tolist() == [3, 5, 7, 7, 3]
    copies = forced_copies(trees, 16)
    assert copies.rows.tolist() == [3, 2, 1, 1, 1]  # below the root 2 * 5 + 14 + 3 = 27 in 13 slots a row
    assert copies.below.tolist() == [27, 14, 0, 0, 0]


def test_equal_tokens_with_other_values_stay_apart():
    sequences = [[1, 2, 3], [1, 2, 4], [1, 2, 3]]
    together = pack_trees(sequences, [0, 0, 0], 9)
    assert together.tokens == 5 and len(together.trees.parents) == 3  # 1, then the heads 2 and their answers
    old = [[0.0, -0.5, -1.0], [0.0, -0.7, -1.0], [0.0, -0.5, -1.0]]
    apart = pack_trees(sequences, [0, 0, 0], 9, apart=old)
    assert apart.tokens == 6 and len(apart.trees.parents) == 3  # no slot for 1 alone: it is at both heads
    routes = [[[0, 1], [2, 3], [0, 1]], [[0, 1], [2, 3], [1, 1]], [[3, 1], [2, 3], [0, 1]]]
    assert pack_trees(sequences, [0, 0, 0], 9, apart=routes).tokens == 5 + 3
    assert pack_trees(sequences, [0, 0, 0], 9, apart=np.array(routes)).tokens == 5 + 3
    assert pack_trees(sequences, ["a", "b", "c"], 9).tokens == 9
    nothing = [[float("nan")] * 3] * 3  # what is not known is equal to nothing
    assert pack_trees(sequences, [0, 0, 0], 9, apart=nothing).tokens == 9


def test_a_beginning_and_a_copy_take_no_slots_of_their_own():
    rows = pack_trees([[1, 2], [1, 2, 3, 4], [1, 2, 3, 4], [1]], [0, 0, 0, 0], 4)
    assert len(rows) == 1 and rows.tokens == 4 and sorted(rows[0].tolist()) == [0, 1, 2, 3]


def test_a_chat_of_many_turns_is_a_deep_tree():
    sequences, history = [], [0]
    for turn in range(1500):
        sequences.append([*history, -1 - turn, 5])
        history += [turn + 1]
    rows = pack_trees(sequences, [0] * len(sequences), 4096, tries=1)
    assert len(rows) >= rows.lower_bound > 1
    assert rows.tokens < rows.unshared_tokens / 50


FAMILIES = [(9.0, 7.0, 8, 128), (9.8, 5.5, 16, 128), (5.5, 8.0, 8, 128), (9.8, 5.5, 100, 32)]


@pytest.mark.parametrize(("prompt", "answer", "number", "groups"), FAMILIES)
def test_groups_are_at_most_three_percent_above_the_bound(prompt, answer, number, groups):
    rng, top = np.random.default_rng(1), 32768
    prompts = rng.lognormal(prompt, 0.6, groups).clip(16, 24576).astype(int)
    answers = [rng.lognormal(answer, 0.6, number).clip(1, top - one).astype(int) for one in prompts]
    rows = pack_tree_lengths(group_trees(prompts, answers), top)
    assert len(rows) <= 1.03 * rows.lower_bound


@pytest.mark.parametrize(("prompt", "answer", "number", "rows"), [(5.5, 8.0, 16, 453), (9.0, 7.0, 16, 284)])
def test_groups_are_filled_exactly_to_the_slot(prompt, answer, number, rows):
    """With three trees cut by chance, in units of 16 slots, the first pass has one and two rows more."""
    rng = np.random.default_rng(1)
    prompts = rng.lognormal(prompt, 0.6, 256).clip(16, 3 * 32_768 // 4).astype(int)
    answers = [rng.lognormal(answer, 0.6, number).clip(1, 32_768 - one).astype(int) for one in prompts]
    assert len(pack_tree_lengths(group_trees(prompts, answers), 32_768, tries=0)) <= rows


def test_sequences_that_share_nothing_are_packed_as_ever():
    lengths = np.random.default_rng(0).integers(2, 100, 200)
    sequences = [[at] * length for at, length in enumerate(lengths.tolist())]
    rows, again = (pack_trees(sequences, range(200), 128) for _ in range(2))
    assert np.array_equal(rows.sequences, again.sequences) and np.array_equal(rows.offsets, again.offsets)
    assert rows.tokens == rows.unshared_tokens == lengths.sum()
    assert rows.split_trees == rows.repeated_tokens == 0
    assert len(rows) <= plan(lengths, 128, "optimal").num_packs + 1


def test_a_group_is_split_where_that_saves_a_row():
    rows = pack_tree_lengths(group_trees([4, 4], [[3, 3, 3], [3, 3, 3]]), 16)  # 15 tokens a group
    assert (len(rows), rows.split_trees) == (2, 0)
    rows = pack_tree_lengths(group_trees([2, 2, 2], [[4, 4], [4, 4], [4, 4]]), 17)  # 11 a group: 36 tokens split
    assert (len(rows), rows.split_trees, rows.repeated_tokens, rows.lower_bound) == (2, 1, 1, 2)


def test_rows_that_were_tampered_with_are_found():
    sequences = [[1, 2, 3], [1, 2, 4], [5, 6]]
    rows = pack_trees(sequences, [0, 0, 1], 8)
    assert rows.verify(sequences) is rows
    with pytest.raises(ValueError, match="Sequence 1 must be in the rows once; it is there 0 times"):
        replace(rows, sequences=np.array([0, 2]), offsets=np.array([0, 2])).verify()
    with pytest.raises(ValueError, match="Sequence 1 must be in the rows once; it is there 2 times"):
        replace(rows, sequences=np.array([0, 1, 1]), offsets=np.array([0, 3])).verify()
    leaves = np.append(rows.trees.leaves, 0)
    more = replace(rows, sequences=np.arange(4), offsets=np.array([0, 4]), trees=replace(rows.trees, leaves=leaves))
    with pytest.raises(ValueError, match="The rows hold sequence 3; the last one in the trees is 2"):
        more.verify()
    with pytest.raises(ValueError, match="Sequence 1 does not have the tokens that its tree has from 0 on"):
        rows.verify([[1, 2, 3], [1, 9, 4], [5, 6]])
    with pytest.raises(ValueError, match="Sequence 2 has 3 tokens, not the 2 of its tree"):
        rows.verify([[1, 2, 3], [1, 2, 4], [5, 6, 7]])
    with pytest.raises(ValueError, match="hold 3 sequences, not 2"):
        rows.verify(sequences[:2])


def test_a_row_that_is_a_token_too_long_is_found():
    rows = pack_tree_lengths(group_trees([4, 6], [[3, 2], [5]]), max_length=20)
    longest = int(rows.lengths_used.max())
    assert replace(rows, max_length=longest).verify()
    with pytest.raises(ValueError, match=f"holds {longest} tokens; the maximum is {longest - 1}"):
        replace(rows, max_length=longest - 1).verify()
