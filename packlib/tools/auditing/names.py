"""The names that programs give to the columns of packs, and which of the names here each of them stands for."""

from collections.abc import Iterable, Mapping
from typing import Any

from packlib.arguments import listed, one_of, shown
from packlib.tools.rows.loss_masks import LOSS_MASKS, MaskWord

NEMO = "seq_start_id"
SEGMENTS = "segment_ids", "document_ids", "seq_idx"
BOUNDS = "cu_seqlens", "cu_seq_lens_q", "cu_seq_lens"
PADDED_BOUNDS = {f"{name}_padded": name for name in BOUNDS}  # of sequences that are padded one by one
KINDS = ("seq_lengths", *BOUNDS, NEMO, "position_ids", *SEGMENTS, "attention_mask", "input_ids")
TREES = "seen_until", "last_slots"  # rows in which sequences share tokens: `packlib.tools.rows.lay_trees`
WEIGHTS = "weights", "loss_weights"  # of each token in the loss: 0 trains on nothing
TARGETS = "targets_segmentation"  # as Grain and MaxText have it: 0 where the target at this slot is not trained on
MASKS: dict[str, MaskWord] = LOSS_MASKS | dict.fromkeys(WEIGHTS, "loss") | {TARGETS: "next"}
READ = tuple(dict.fromkeys((*KINDS, *PADDED_BOUNDS, "labels", *MASKS, "token_type_ids")))

# A program is told by any of the first names; what its columns are called here
_PROGRAMS: tuple[tuple[tuple[str, ...], dict[str, str]], ...] = (
    (
        ("seq_lens", "input_pos"),  # torchtune
        {"tokens": "input_ids", "seq_lens": "seq_lengths", "input_pos": "position_ids"},
    ),
    (
        ("inputs_segmentation", "inputs_position"),  # Grain, MaxText
        {
            "inputs": "input_ids",
            "inputs_segmentation": "segment_ids",
            "inputs_position": "position_ids",
            "targets": "labels",
            TARGETS: TARGETS,
        },
    ),
    (
        ("encoder_segment_ids", "encoder_positions"),  # seqio; of an encoder and a decoder, the encoder
        {
            "encoder_input_tokens": "input_ids",
            "encoder_segment_ids": "segment_ids",
            "encoder_positions": "position_ids",
            "encoder_loss_weights": "loss_weights",
        },
    ),
    (
        ("decoder_segment_ids", "decoder_positions"),  # seqio; its decoder_input_tokens are these, one later
        {
            "decoder_target_tokens": "input_ids",
            "decoder_segment_ids": "segment_ids",
            "decoder_positions": "position_ids",
            "decoder_loss_weights": "loss_weights",
        },
    ),
    (("doc_lens",), {"doc_lens": "seq_lengths"}),  # OLMo
    (
        ("cu_seqlens_q",),
        {"cu_seqlens_q": "cu_seqlens", "cu_seqlens_q_padded": "cu_seqlens_padded"},
    ),  # Transformer Engine
)


def columns_asked(columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return `columns` as `audit` takes them, or raise a TypeError or a ValueError that names what is wrong."""
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise TypeError(f"columns must map names to columns of the file, not be {shown(columns)}.")
    for name, column in columns.items():
        one_of("a name in columns", name, READ)
        if not isinstance(column, str):
            raise TypeError(f"columns[{name!r}] must be the name of a column, not {shown(column)}.")
    return dict(columns)


def names_in(columns_there: Iterable[str], own_names: Mapping[str, str], masks: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a file that are read, by the names that they have here.

    Args:
        columns_there: all columns of the file.
        own_names: the columns for some names here; those that the file lacks are passed over.
        masks: other columns that are masks of the loss, or not, by the words of `pack_dataset`.
    """
    columns_there = list(columns_there)
    names = {name: column for name, column in own_names.items() if column in columns_there}
    if "cu_seqlens_unpadded" in columns_there:  # as Megatron Bridge has them: the others are those of padded sequences
        names = {"cu_seqlens": "cu_seqlens_unpadded", "cu_seqlens_padded": "cu_seqlens"} | names
    named_columns = set(names.values())
    words = MASKS | dict(masks)
    names |= {name: name for name in (*READ, *masks) if name in columns_there and name not in {*names, *named_columns}}
    for tell, columns in _PROGRAMS:
        if any(column in columns_there for column in tell):
            names |= {
                name: column for column, name in columns.items() if column in columns_there and name not in names
            }
            if "input_ids" in names:
                break
    return {name: column for name, column in names.items() if words.get(name, "loss") not in ("keep", "drop")}


def without_borders(file: str, columns_there: Iterable[str]) -> ValueError:
    """Return the error for a file none of whose columns is known."""
    known_columns = ", ".join(dict.fromkeys(KINDS))
    return ValueError(
        f"{file} must have one of {known_columns}, not {listed(columns_there) or 'no column'}: if its columns have "
        "other names, say which is which, such as columns={'input_ids': 'tokens', 'segment_ids': 'doc_ids'} "
        "(--columns input_ids=tokens,segment_ids=doc_ids)."
    )
