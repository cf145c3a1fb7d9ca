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

    A sequence gets it if without it it is no sequence of the source, and all but the last token of one. If that is so
    for most, all get theirs. Where the label is left out, since nothing trains on it, the token is that of the source.

    Args:
        packs, source: both with `ends`.

    Returns:
        The contents of the packs with these tokens, and how many sequences got one.
    """
    of_source, of_packs = source.ends(), packs.ends()
    if of_source is None or of_packs is None or not len(source):
        return packs, 0
    lengths, labeled = packs.lengths(), of_packs != IGNORED
    all_but_last = without_the_last(source.tokens, source.lengths(), of_source)
    order = np.argsort(all_but_last)
    candidates = order[np.minimum(np.searchsorted(all_but_last[order], packs.tokens), len(order) - 1)]
    lacks = all_but_last[candidates] == packs.tokens
    is_whole = np.isin(packs.tokens, source.tokens)
    if np.count_nonzero(lacks & ~is_whole) > np.count_nonzero(is_whole & ~lacks):
        get = lacks | labeled
    else:
        get = lacks & ~is_whole
    if not get.any():
        return packs, 0
    last_tokens = np.where(labeled, of_packs, of_source[candidates])
    longer = np.where(get, with_one_more(packs.tokens, lengths, last_tokens), packs.tokens)
    unlabeled = np.flatnonzero(get & ~labeled)
    _, unpaired = without_partner(np.delete(longer, unlabeled), source.tokens)
    in_packs, in_source = in_pairs(packs.tokens[unlabeled], all_but_last[unpaired])
    last_tokens[unlabeled[in_packs]] = of_source[unpaired[in_source]]
    sizes = lengths + get
    begin = 0
    chunks = []
    for chunk in packs.chunks:
        part = slice(begin, begin + len(chunk.lengths))
        chunks.append(_longer(chunk, get[part], last_tokens[part], labeled[part], sizes[part]))
        begin = part.stop
    return Contents(chunks), int(np.count_nonzero(get))


def _longer(chunk: Chunk, get: np.ndarray, last_tokens: np.ndarray, labeled: np.ndarray, sizes: np.ndarray) -> Chunk:
    """Return a chunk in which the sequences that `get` it have one token more."""
    sequence_ends, count = np.cumsum(chunk.lengths)[get], int(chunk.lengths.sum())
    marked, bits = {}, {}
    for name, bits_of_column in chunk.bits.items():
        marks = marks_with_one_more(chunk.marked[name], chunk.lengths, labeled)
        marked[name] = np.where(get, marks, chunk.marked[name])
        bits[name] = np.packbits(np.insert(np.unpackbits(bits_of_column, count=count), sequence_ends, labeled[get]))
    tokens = np.where(get, with_one_more(chunk.tokens, chunk.lengths, last_tokens), chunk.tokens)
    return chunk._replace(lengths=sizes, tokens=tokens, marked=marked, bits=bits)
