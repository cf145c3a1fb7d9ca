"""Inference in packs from a stream: answers in the order of the questions."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn

from packlib.arguments import instance, shown, whole_number
from packlib.batches import pack_lengths, pack_loader, tokenize
from packlib.model.packed import PackedBert


@torch.no_grad()
def predict(
    model: PackedBert,
    texts: Iterable[str | tuple[str, str]],
    tokenizer: Any,
    *,
    max_length: int = 128,
    window: int = 1024,
    batch_size: int = 16,
) -> Iterator[np.ndarray]:
    """Read `texts` a window at a time, run each window in packs, and yield each text's next-sentence logits, in order.

    A wide window packs tighter, a narrow one answers sooner: a text waits for the rest of its window. With
    `window=1` every text runs alone; the answers are the same.

    Args:
        texts: any iterable, endless ones too; each a text or a pair of texts.
        max_length: slots of a pack; no text may have more tokens.
        window: texts that are read before the first is answered.
        batch_size: packs in one forward pass.

    Yields:
        An array of shape (2,) a text.

    Raises:
        TypeError: naming the argument, or the text that is neither a text nor a pair of texts.
        ValueError: if a text is longer than `max_length` (it is named), before any answer of its window.
    """
    instance("model", model, nn.Module)
    whole_number("max_length", max_length, 1)
    whole_number("window", window, 1)
    whole_number("batch_size", batch_size, 1)
    if not isinstance(texts, Iterable) or isinstance(texts, (str, bytes, Mapping)):
        raise TypeError(f"texts must be a list of texts or of pairs of texts, not {shown(texts)}.")
    was_training = model.training
    num_answered = 0
    stream = iter(texts)
    while chunk := list(islice(stream, window)):
        pairs = [_pair(text, number) for number, text in enumerate(chunk, num_answered)]
        first, second = zip(*pairs, strict=True)
        store = tokenize(tokenizer, first, second)
        if store.lengths.max() > max_length:
            at = int((store.lengths > max_length).argmax())
            raise ValueError(f"Text {num_answered + at} has {store.lengths[at]} tokens; the maximum is {max_length}.")
        packs = pack_lengths(store.lengths, max_length, "lpfhp")
        answers: dict[int, np.ndarray] = {}  # by the index of a text in the window
        model.eval()
        try:
            for batch in pack_loader(store, packs, batch_size=batch_size, shuffle=False, ranks=1):
                logits = model(**batch.to(model.device)).nsp_logits.cpu()  # shape (sequences, 2)
                logits = logits if logits.dtype == torch.float64 else logits.float()  # NumPy has no bfloat16
                answers |= zip(batch.sample_ids.tolist(), logits.numpy(), strict=True)
        finally:
            model.train(was_training)
        num_answered += len(chunk)
        yield from (answers[sample] for sample in range(len(chunk)))


def _pair(text: str | tuple[str, str], number: int) -> tuple[str, str]:
    """Return a text with "" as its second one, or a pair as it is; an error names it by its `number` in the stream."""
    if isinstance(text, str):
        return text, ""
    if not (isinstance(text, (tuple, list)) and len(text) == 2 and all(isinstance(one, str) for one in text)):
        raise TypeError(f"texts must be texts or pairs of texts: text {number} is {shown(text)}.")
    return text[0], text[1]
