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

# tokens of the documents in Figure 1 of Fewer Truncations (arXiv 2404.10830), and the slots of its rows
FIVE, SLOTS = (14, 7, 5, 2, 3), 8
LONGEST = 1 << 16  # all documents of the shipped data sets have fewer tokens
SPOKEN = {rule: rule.replace("_", " ") for rule in CUTTING_RULES}
LOSSLESS = ("wrapped", "split", "powers_of_two")  # rules that lose no token

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
    """Return the lengths of whole documents; `load` truncates some shipped data sets to their usual row length."""
    histogram = load(dataset)
    return load(dataset, LONGEST) if histogram.truncated else histogram


def under_all_rules(lengths: Sequence[int] | np.ndarray, max_length: int) -> dict[CuttingRule, DocumentRows]:
    """Return the rows of each rule; "drop" is left out if it drops all documents.

    Rows of the rule "powers_of_two" have the largest power of two up to `max_length` as their slots.
    """
    largest_power = 1 << (max_length.bit_length() - 1)
    rows_by_rule = {}
    for rule in CUTTING_RULES:
        if rule == "drop" and min(lengths) > max_length:
            continue
        slots = largest_power if rule == "powers_of_two" else max_length
        rows_by_rule[rule] = document_rows(lengths, slots, rule)
    return rows_by_rule


def compared(found: dict[CuttingRule, DocumentRows]) -> Table:
    """Return a table that compares the rules, with a line for each.

    Args:
        found: the rows of each rule, as from `under_all_rules`.
    """
    columns = "rule", "rows", "documents cut", "cuts", "tokens lost", "a token sees"
    lines = []
    for rule in CUTTING_RULES:
        rows = found.get(rule)
        if rows is None:  # it drops all documents
            lines.append([SPOKEN[rule], "none", "", "", percent(1), ""])
            continue
        share_cut = percent(rows.cut_documents / len(rows.document_lengths))
        share_lost = percent(rows.lost_tokens / int(rows.document_lengths.sum()))
        context = f"{rows.mean_context:.1f}"
        lines.append([SPOKEN[rule], f"{len(rows):,}", share_cut, f"{rows.cuts:,}", share_lost, context])
    return Table(columns, lines, right=True)


def prices(lengths: np.ndarray, slots: int, seed: int) -> Table:
    """Return a table of the rows that split needs beyond wrapping, for these lengths, SQuAD, and equal documents."""
    squad = load("squad")
    shares = squad.counts / squad.num_sequences
    squad_lengths = np.random.default_rng(seed).choice(len(shares), 20_000, p=shares)
    documents = {  # lengths, and slots in a row
        "these documents": (lengths, slots),
        "questions with their paragraphs (SQuAD)": (squad_lengths, 256),
        "equal documents of 300 tokens": (np.full(1000, 300), 512),
    }
    rows = []
    for name, (document_lengths, row_slots) in documents.items():
        wrapped = -(-int(document_lengths.sum()) // row_slots)
        split = len(document_rows(document_lengths, row_slots, "split"))
        rows.append((name, f"{row_slots:,}", f"{wrapped:,}", f"{split:,}", percent(split / wrapped - 1, 2)))
    return Table(("documents", "slots in a row", "rows, wrapped", "rows, split", "more rows"), rows, right=True)


def most_of(values: Mapping[str, float], within: float) -> str:
    """Return the name of the largest value, or "equal" if the second is at most a share `within` below it."""
    *_, second, first = sorted(values, key=values.__getitem__)
    return "equal" if values[second] >= (1 - within) * values[first] else first


def longer_in_words(longer: float, held: float) -> str:
    """Say what share of the documents is `longer` than a row, and what share of all tokens they have, `held`."""
    if not longer:
        return "No document is longer than a row, so nothing is cut off."
    return (
        f"{percent(longer, 0)} of the documents are longer than a row, and they hold {percent(held, 0)} of all tokens. "
        "Truncating keeps one row of each."
    )


def in_words(rows: DocumentRows) -> str:
    """Return the rows in words, documents as letters: "A 8 | B 7 | A 6 + D 2"."""
    rows_in_words = []
    for row in rows:
        pieces = [f"{letter(document)} {length}" for document, _, length in row.tolist()]
        rows_in_words.append(" + ".join(pieces))
    return " | ".join(rows_in_words)


def letter(document: int) -> str:
    """Return the name of a document: A for 0, B for 1, …"""
    return chr(ord("A") + document % 26)


def expected_losses(p: float, m: int) -> tuple[float, float]:
    """Return the loss on token m, from 1 up, of a model of whole sequences and of one whose training text was cut.

    Token 0 is a fair coin, and each later token equals it with probability p. The second model has never seen a
    token 0: it reads all m tokens before as later ones, whose beginning was cut off, and infers that beginning.
    Source: Ding and others, Fewer Truncations (arXiv 2404.10830), section 2.1 and appendix A. In nats.
    """
    q = 1 - p
    whole = -p * log(p) - q * log(q)
    cut = 0.0
    for others in range(m):  # of the tokens 1 to m - 1, how many equal token 0
        k = others + 1  # of the m tokens before, how many equal token 0, itself included
        chance = comb(m - 1, others) * p**others * q ** (m - 1 - others)
        belief = 1 / (1 + (q / p) ** (2 * k - m))  # that the inferred beginning equals token 0 (Bayes)
        predicted = belief * p + (1 - belief) * q
        cut -= chance * (p * log(predicted) + q * log(1 - predicted))
    return whole, cut


def counted_losses(p: float, m: int, number: int, seed: int) -> tuple[float, float]:
    """Return what `expected_losses` computes, by counting which token follows each context of m tokens.

    One table of counts is of tokens 0 to m, the other of tokens 1 to m + 1. Both predict token m of fresh sequences.

    Args:
        number: of sequences to count in, and to test on.
    """
    rng = np.random.default_rng(seed)

    def contexts_and_next(first: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw sequences; return the m tokens from `first` on, as bits of a number, and the token that follows."""
        token_0 = rng.random(number, np.float32) < 0.5
        context = np.zeros(number, np.int64)
        for position in range(first, first + m + 1):
            token = token_0 if position == 0 else token_0 ^ (rng.random(number, np.float32) >= p)
            if position < first + m:
                context = 2 * context + token
        return context, token

    fresh_context, fresh_token = contexts_and_next(0)
    losses = []
    for first in (0, 1):
        context, token = contexts_and_next(first)
        counts = np.bincount(2 * context + token, minlength=2 ** (m + 1)).reshape(-1, 2)  # (contexts, next token)
        chances = counts / counts.sum(1, keepdims=True)
        losses.append(-float(np.log(chances[fresh_context, fresh_token.astype(int)]).mean()))
    return losses[0], losses[1]


def recorded_differences(recorded: Runs) -> dict[str, Interval]:
    """Return how much wrapping, and then a missing mask, raise the held-out loss, seed by seed.

    The loss is the mean over all bytes, and over the later bytes, after the first 64 of a document.
    """
    differences = {}
    for bytes_in_words, column in (("", "held_out_loss"), (", later bytes", "later_loss")):
        ended = at_end(recorded, column)
        differences[f"wrapped less split{bytes_in_words}"] = interval(ended["wrapped"] - ended["split"])
        differences[f"no mask less mask{bytes_in_words}"] = interval(ended["wrapped, no mask"] - ended["wrapped"])
    return differences
