"""What notebook 14 computes: documents under every rule, and what a cut costs, by a formula and in recorded runs."""

from collections.abc import Mapping, Sequence
from math import comb, log

import numpy as np

from packbook.figures import percent
from packbook.shared.recorded_runs import Interval, Runs, at_end, interval
from packbook.tables import Table
from packlib.lengths import LengthHistogram, load
from packlib.packing import CUTTING_RULES, DocumentRows, document_rows
from packlib.packing.documents import CuttingRule

FIVE, SLOTS = (14, 7, 5, 2, 3), 8  # the documents of Figure 1 in Fewer Truncations (arXiv 2404.10830)
LONGEST = 1 << 16  # no document of the shipped data sets has as many tokens
SPOKEN = {rule: rule.replace("_", " ") for rule in CUTTING_RULES}
LOSSLESS = ("wrapped", "split", "powers_of_two")

# Fewer Truncations, Table 10: models of 13 billion parameters in rows of 2,048, one training run each
PUBLISHED = Table(
    ("rows", "mask", "perplexity", "reading", "inference", "context", "summaries", "commonsense"),
    [
        ["wrapped", "no", "9.64", "46.71 %", "49.26 %", "40.60 %", "12.16", "64.38 %"],
        ["wrapped", "yes", "9.53", "47.92 %", "50.35 %", "42.41 %", "11.79", "64.77 %"],
        ["split", "yes", "9.53", "48.92 %", "52.31 %", "46.30 %", "13.14", "64.84 %"],
    ],
    right=True,
)


def whole_lengths(dataset: str) -> LengthHistogram:
    """Return the lengths of whole documents: a shipped data set is truncated where `load` is not told how far to go."""
    histogram = load(dataset)
    return load(dataset, LONGEST) if histogram.truncated else histogram


def under_all_rules(lengths: Sequence[int] | np.ndarray, max_length: int) -> dict[CuttingRule, DocumentRows]:
    """Return the rows of each rule that leaves something; powers of two go up to the largest that fits into a row."""
    slots = dict.fromkeys(CUTTING_RULES, max_length) | {"powers_of_two": 1 << (max_length.bit_length() - 1)}
    left = [rule for rule in CUTTING_RULES if rule != "drop" or min(lengths) <= max_length]
    return {rule: document_rows(lengths, slots[rule], rule) for rule in left}


def compared(found: dict[CuttingRule, DocumentRows]) -> Table:
    """Return the rules beside each other."""
    columns = "rule", "rows", "documents cut", "cuts", "tokens lost", "a token sees"
    rows = [
        [
            SPOKEN[rule],
            f"{len(made):,}",
            percent(made.cut_documents / len(made.document_lengths)),
            f"{made.cuts:,}",
            percent(made.lost_tokens / int(made.document_lengths.sum())),
            f"{made.mean_context:.1f}",
        ]
        if (made := found.get(rule))
        else [SPOKEN[rule], "none", "", "", percent(1), ""]
        for rule in CUTTING_RULES
    ]
    return Table(columns, rows, right=True)


def prices(lengths: np.ndarray, slots: int, seed: int) -> Table:
    """Count the rows that split needs more than wrapping: for these lengths, for SQuAD, and for equal documents."""
    squad = load("squad")
    shares = squad.counts / squad.num_sequences
    others = {
        "these documents": (lengths, slots),
        "questions with their paragraphs (SQuAD)": (
            np.random.default_rng(seed).choice(len(shares), 20_000, p=shares),
            256,
        ),
        "equal documents of 300 tokens": (np.full(1000, 300), 512),
    }
    rows = []
    for name, (some, top) in others.items():
        wrapped, split = -(-int(some.sum()) // top), len(document_rows(some, top, "split"))
        rows.append((name, f"{top:,}", f"{wrapped:,}", f"{split:,}", percent(split / wrapped - 1, 2)))
    return Table(("documents", "slots in a row", "rows, wrapped", "rows, split", "more rows"), rows, right=True)


def most_of(values: Mapping[str, float], within: float) -> str:
    """Return the name of the largest value, or "equal" if another is as large but for a share `within`."""
    *_, second, first = sorted(values, key=values.__getitem__)
    return "equal" if values[second] >= (1 - within) * values[first] else first


def longer_in_words(longer: float, held: float) -> str:
    """Say what share of the documents is longer than a row, and what share of all tokens these hold."""
    if not longer:
        return "No document is longer than a row, so nothing is cut off."
    return (
        f"{percent(longer, 0)} of the documents are longer than a row, and they hold {percent(held, 0)} of all tokens. "
        "Truncating keeps one row of each."
    )


def in_words(rows: DocumentRows) -> str:
    """Return the rows in words, documents as letters: "A 8 | B 7 | A 6 + D 2"."""
    return " | ".join(" + ".join(f"{letter(i)} {n}" for i, _, n in row.tolist()) for row in rows)


def letter(document: int) -> str:
    return chr(ord("A") + document % 26)


def expected_losses(p: float, m: int) -> tuple[float, float]:
    """Return the loss on token m, from 1 up, of a model of whole sequences and of one whose training text was cut.

    Token 0 is a fair coin, and each later token equals it with probability p. The second model has never seen a
    token 0: it takes what it is given for later tokens, whose beginning was cut off, and infers that beginning.
    Source: Ding and others, Fewer Truncations (arXiv 2404.10830), section 2.1 and appendix A. In nats.
    """
    q = 1 - p
    whole = -p * log(p) - q * log(q)
    cut = 0.0
    for others in range(m):  # of the tokens 1 to m - 1, how many equal token 0
        k = others + 1  # token 0 agrees with itself
        chance = comb(m - 1, others) * p**others * q ** (m - 1 - others)
        belief = 1 / (1 + (q / p) ** (2 * k - m))  # that the beginning was equal to token 0 (Bayes)
        predicted = belief * p + (1 - belief) * q
        cut -= chance * (p * log(predicted) + q * log(1 - predicted))
    return whole, cut


def counted_losses(p: float, m: int, number: int, seed: int) -> tuple[float, float]:
    """Return the same by counting: tables of what follows each context of m tokens, from `number` sequences each.

    One table is learned from tokens 0 to m, the other from tokens 1 to m + 1; both are tried on fresh tokens 0 to m.
    """
    rng = np.random.default_rng(seed)

    def contexts_and_next(first: int) -> tuple[np.ndarray, np.ndarray]:
        begin = rng.random(number, np.float32) < 0.5
        context = np.zeros(number, np.int64)
        for at in range(first, first + m + 1):
            token = begin if at == 0 else begin ^ (rng.random(number, np.float32) >= p)
            if at < first + m:
                context = 2 * context + token
        return context, token

    fresh, losses = contexts_and_next(0), []
    for first in (0, 1):
        context, token = contexts_and_next(first)
        counts = np.bincount(2 * context + token, minlength=2 ** (m + 1)).reshape(-1, 2)
        chances = counts / counts.sum(1, keepdims=True)
        losses.append(-float(np.log(chances[fresh[0], fresh[1].astype(int)]).mean()))
    return losses[0], losses[1]


def recorded_differences(recorded: Runs) -> dict[str, Interval]:
    """Return how much wrapping, and then a missing mask, raise the held-out loss, seed by seed.

    That of all bytes comes first, then that of the later ones, after the first 64 of a document.
    """
    differences = {}
    for those, column in (("", "held_out_loss"), (", later bytes", "later_loss")):
        ended = at_end(recorded, column)
        differences[f"wrapped less split{those}"] = interval(ended["wrapped"] - ended["split"])
        differences[f"no mask less mask{those}"] = interval(ended["wrapped, no mask"] - ended["wrapped"])
    return differences
