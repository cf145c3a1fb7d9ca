"""Batches by tokens, made by a plain loop that shares no code with packlib."""

import numpy as np
from hypothesis import strategies as st

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=60)


def in_order(lengths, order, seed=0):
    """The samples in the wanted order, by Python's own stable sort."""
    ids = range(len(lengths))
    if order == "random":
        return np.random.default_rng(seed).permutation(len(lengths)).tolist()
    if order == "dataset":
        return list(ids)
    return sorted(ids, key=lambda i: lengths[i] if order == "ascending" else -lengths[i])


def fits(batch, lengths, budget, count_padding):
    sizes = [lengths[i] for i in batch]
    return (len(sizes) * max(sizes) if count_padding else sum(sizes)) <= budget


def greedy(lengths, budget, most, order, count_padding, every=1):
    """The plain loop: a row of `every` samples at a time, as long as all their batches keep the budget."""
    ids, groups = in_order(lengths, order), []
    for at in range(0, len(ids), every):
        row = ids[at : at + every]
        if groups and len(groups[-1]) < most:
            columns = list(zip(*groups[-1], row, strict=True))
            together = [i for column in columns for i in column]
            widest = max(lengths[i] for i in together)
            if count_padding:
                room = (len(groups[-1]) + 1) * widest <= budget
            else:
                room = all(fits(column, lengths, budget, count_padding) for column in columns)
            if room:
                groups[-1].append(row)
                continue
        groups.append([row])
    return [list(column) for group in groups for column in zip(*group, strict=True)]
