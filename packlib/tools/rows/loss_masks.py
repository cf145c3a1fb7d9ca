"""Masks of the loss: the columns of a data set that say which tokens are trained on, whoever wrote it.

If a column that packlib does not know may be such a mask, an error asks what it means: packlib does not guess.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from packlib.arguments import listed, one_of, shown, text
from packlib.files import named

MaskWord: TypeAlias = Literal["loss", "prompt", "next", "keep", "drop"]
MASK_WORDS: tuple[MaskWord, ...] = get_args(MaskWord)
# The names that transformers, TRL, verl, NeMo and others use, and what each mask means.
LOSS_MASKS: dict[str, MaskWord] = {
    "loss_mask": "loss",
    "completion_mask": "loss",
    "assistant_masks": "loss",
    "assistant_mask": "loss",
    "response_mask": "loss",
    "train_mask": "loss",
    "prompt_mask": "prompt",
}
# By word, the value of a mask for a token that is not trained on.
UNTRAINED = {"loss": "0", "prompt": "1", "next": "0 at the token before"}
_OTHER_MASKS = ("attention_mask", "special_tokens_mask", "token_type_ids")  # of 0 and 1 too, and not about the loss
_WEIGHTS = re.compile(r"(^|_)weights?$", re.IGNORECASE)  # names of columns with the weight of each token
# Names of columns with one number for each sequence that may say which tokens are trained on.
_ABOUT_SEQUENCES = re.compile(
    r"(^|_)(weights?|train|training|trainable|trained_on"
    r"|(prompt|source|context|instruction|completion|answer|response)_?(len|length|size|start|end|tokens))s?$",
    re.IGNORECASE,
)


def mask_words(masks: Mapping[str, MaskWord] | None) -> dict[str, MaskWord]:
    """Return `masks` as `pack_dataset` takes them, or raise a TypeError or a ValueError that names what is wrong."""
    if masks is None:
        return {}
    if not isinstance(masks, Mapping):
        raise TypeError(f"masks must map names of columns to words, not be {shown(masks)}.")
    for name, word in masks.items():
        text("Each name of a column in masks", name)
        one_of(f"masks[{name!r}]", word, ("drop",) if name == "labels" else MASK_WORDS)
        if name in ("input_ids", "attention_mask") and word == "drop":
            raise ValueError(f"{name} cannot be dropped, since it says what the tokens are.")
        if name in ("input_ids", "attention_mask"):
            raise ValueError(f"masks must not name {name}, which is no mask of the loss.")
    return dict(masks)


def may_be_a_mask(name: str) -> bool:
    """Return whether packlib does not know what a column of this name means, so that it may be a mask of the loss."""
    return name not in LOSS_MASKS and name not in _OTHER_MASKS


def holds_weights(name: str) -> bool:
    """Return whether a column of this name has the weight of each token in the loss."""
    return _WEIGHTS.search(name) is not None


def is_about_sequences(name: str) -> bool:
    """Return whether a column with a number for each sequence says, by its name, which tokens are trained on."""
    return _ABOUT_SEQUENCES.search(name) is not None


def mask_option(name: str, word: str) -> str:
    """Return the option of the shell for `masks={name: word}`."""
    return f"--mask {shlex.quote(name) if name.isprintable() else named(name)} {word}"


def unknown_column(name: str, word: str, holder: str, columns_there: Iterable[str]) -> ValueError:
    """Return the error for a word about a column that is not there.

    Args:
        holder: of the columns, such as "the data set".
    """
    shell = _drop(name) if word == "drop" else mask_option(name, word)
    return ValueError(
        f"masks={{{name!r}: {word!r}}} ({shell}) names no column of {holder}; it has {listed(columns_there)}."
    )


def _drop(name: str) -> str:
    """Return the option of the shell that leaves a column out."""
    # --drop takes several names as a line of CSV, in which a name with a comma or a quote is in quotes
    quoted = '"{}"'.format(name.replace('"', '""')) if "," in name or '"' in name else name
    return f"--drop {shlex.quote(quoted) if name.isprintable() else named(name)}"


def drop_option(name: str) -> str:
    """Return, for an error, how to leave a column out, in Python and in the shell."""
    shell = _drop(name)
    return f"leave it out by masks={{{name!r}: 'drop'}} ({shell})"


def ask_for_a_word(name: str) -> str:
    """Return the sentence that asks what a column of 0 and 1 with an unknown name is."""
    return (
        f"The column {shown(name)} has 0 and 1 for each token, and packlib does not know whether it is a mask of the "
        f"loss: say so by masks={{{name!r}: WORD}} ({mask_option(name, 'WORD')}), where WORD is loss if tokens with 1 "
        "are trained on, prompt if tokens with 0 are, next if 1 means that the next token is, keep or drop if it is "
        "something else."
    )


def ask_about_weights(name: str) -> str:
    """Return the sentence that asks what becomes of a column with the weight of each token."""
    return (
        f"The column {shown(name)} has a weight for each token, which labels cannot have: {drop_option(name)}, or keep "
        f"it for a loss of your own, beside labels for all tokens, by masks={{{name!r}: 'keep'}} "
        f"({mask_option(name, 'keep')})."
    )


def ask_about_labels(name: str) -> str:
    """Return the sentence that asks what a column is that has -100 as labels have it, and another name."""
    return (
        f"The column {shown(name)} has -100 for some tokens, as labels have it where nothing is trained on, and "
        f"packlib takes no labels from a column of this name: rename it to labels, {drop_option(name)}, or say that "
        f"it is something else by masks={{{name!r}: 'keep'}} ({mask_option(name, 'keep')})."
    )


def ask_about_sequences(name: str) -> str:
    """Return the sentence that asks what a column is that may say which tokens of a sequence are trained on."""
    return (
        f"The column {shown(name)} has a number for each sequence, and packlib does not know whether it says what is "
        f"trained on: say so by masks={{{name!r}: WORD}} ({mask_option(name, 'WORD')}), where WORD is loss if "
        "sequences with 1 are trained on and those with 0 are not, prompt if it counts the first tokens, which are "
        "not, keep or drop if it is something else."
    )


def trained_tokens(word: str, values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return which tokens a mask of the loss lets be trained on; bool, shape (tokens,).

    Args:
        word: "loss", "prompt" or "next".
        values: the mask, 0 or 1 for each token; shape (tokens,).
        starts: the index of the first token of each sequence, which no other token predicts.
    """
    if word == "prompt":
        return values == 0
    if word == "loss":
        return values != 0
    is_trained = np.roll(values != 0, 1)  # "next": each value is about the token behind it
    is_trained[starts] = False
    return is_trained


def trained_in_row(row: Mapping[str, Any], tokens: int) -> np.ndarray | None:
    """Return which tokens of a sequence all its known masks let be trained on; bool, shape (tokens,).

    Args:
        row: the sequence, by column.
        tokens: how many it has; a mask of another size is left out.

    Returns:
        None if it has no known mask.
    """
    first_token = np.zeros(1, int)  # its index
    masks = {name: np.asarray(row[name]) for name in LOSS_MASKS if name in row}
    trained_by_mask = [
        trained_tokens(LOSS_MASKS[name], values, first_token)
        for name, values in masks.items()
        if values.shape == (tokens,)
    ]
    return np.logical_and.reduce(trained_by_mask) if trained_by_mask else None


def first_disagreement(
    trained: Mapping[str, np.ndarray], named: set[str], starts: np.ndarray
) -> tuple[str, str, int] | None:
    """Return the names of two columns that disagree about a token, and the first such token; None if all agree.

    Columns that the caller has named may differ from one another: a token is then trained on where all say so. The
    first token of a sequence is not compared, since nothing predicts it.

    Args:
        trained: by column, which tokens it lets be trained on; bool, shape (tokens,).
        named: the columns that the caller has named.
        starts: the index of the first token of each sequence.
    """
    disagreements = []
    for first_name, second_name in combinations(trained, 2):
        differ = trained[first_name] != trained[second_name]
        differ[starts] = False
        if not {first_name, second_name} <= named and differ.any():
            disagreements.append((first_name, second_name, int(differ.argmax())))
    return min(disagreements, key=lambda pair: pair[2], default=None)
