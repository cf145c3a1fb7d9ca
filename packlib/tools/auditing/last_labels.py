"""Packs whose labels are the next tokens: the last token of a sequence may be a label alone, as where input_ids are
`ids[:-1]` and labels `ids[1:]`.
"""

import numpy as np

from packlib.tools.auditing.contents import Chunk, Contents
from packlib.tools.auditing.hashing import marks_with_one_more, with_one_more, without_the_last
from packlib.tools.auditing.multisets import in_pairs, without_partner
from packlib.tools.rows.token_labels import IGNORED


def with_last_tokens(packs: Contents, source: Contents) -> tuple[Contents, int]:
    """Give sequences of packs the last token that only their label has.

    A sequence gets one if it has all tokens of a sequence of the source but the last, and is no sequence of the source
    itself. If most do, so does each whose last slot has a label. Without a label, since nothing trains on it, the token
    is taken from the source.

    Args:
        packs, source: both with `ends`; if one has none, no sequence gets a token.

    Returns:
        The contents of the packs with these tokens, and how many sequences got one.
    """
    source_ends, last_labels = source.ends(), packs.ends()
    if source_ends is None or last_labels is None or not len(source):
        return packs, 0
    lengths = packs.lengths()
    labeled = last_labels != IGNORED
    all_but_last = without_the_last(source.tokens, source.lengths(), source_ends)
    order = np.argsort(all_but_last)
    places = np.searchsorted(all_but_last[order], packs.tokens)
    candidates = order[np.minimum(places, len(order) - 1)]  # for each sequence of the packs one of the source
    lacks_last = all_but_last[candidates] == packs.tokens
    is_whole = np.isin(packs.tokens, source.tokens)
    if np.count_nonzero(lacks_last & ~is_whole) > np.count_nonzero(is_whole & ~lacks_last):
        gets_one = lacks_last | labeled
    else:
        gets_one = lacks_last & ~is_whole
    if not gets_one.any():
        return packs, 0
    last_tokens = np.where(labeled, last_labels, source_ends[candidates])
    # several sequences of the source may differ in their last token alone: those without a label share what is left
    longer = np.where(gets_one, with_one_more(packs.tokens, lengths, last_tokens), packs.tokens)
    unlabeled = np.flatnonzero(gets_one & ~labeled)
    _, unpaired = without_partner(np.delete(longer, unlabeled), source.tokens)
    in_packs, in_source = in_pairs(packs.tokens[unlabeled], all_but_last[unpaired])
    last_tokens[unlabeled[in_packs]] = source_ends[unpaired[in_source]]
    sizes = lengths + gets_one
    begin = 0
    chunks = []
    for chunk in packs.chunks:
        part = slice(begin, begin + len(chunk.lengths))
        chunks.append(_longer(chunk, gets_one[part], last_tokens[part], labeled[part], sizes[part]))
        begin = part.stop
    return Contents(chunks), int(np.count_nonzero(gets_one))


def _longer(
    chunk: Chunk, gets_one: np.ndarray, last_tokens: np.ndarray, labeled: np.ndarray, sizes: np.ndarray
) -> Chunk:
    """Return a chunk in which some sequences have one token more at the end.

    Args:
        gets_one: which sequences; all arguments are of shape (sequences,).
        last_tokens: the token that each gets.
        labeled: whether this token is trained on.
        sizes: tokens of each sequence then.
    """
    sequence_ends = np.cumsum(chunk.lengths)[gets_one]
    count = int(chunk.lengths.sum())
    marked, bits = {}, {}
    for name, bits_of_column in chunk.bits.items():
        marks = marks_with_one_more(chunk.marked[name], chunk.lengths, labeled)
        marked[name] = np.where(gets_one, marks, chunk.marked[name])
        one_by_one = np.unpackbits(bits_of_column, count=count)
        bits[name] = np.packbits(np.insert(one_by_one, sequence_ends, labeled[gets_one]))
    tokens = np.where(gets_one, with_one_more(chunk.tokens, chunk.lengths, last_tokens), chunk.tokens)
    return chunk._replace(lengths=sizes, tokens=tokens, marked=marked, bits=bits)
