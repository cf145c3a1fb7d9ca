"""Small models of text and images for the tests of `check_packing`, their packed rows, and faults of those."""

from functools import partial

import torch
from transformers import LlavaConfig, LlavaForConditionalGeneration, Qwen2VLConfig, Qwen2VLForConditionalGeneration

IMAGE, BEGIN, END = 60, 58, 59
TEXT = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "max_position_embeddings": 256, "use_cache": False, "bos_token_id": 1,
        "eos_token_id": 2, "pad_token_id": 0}  # fmt: skip
GRIDS = (4, 4), (4, 8), (8, 4), (4, 4), (4, 4), (8, 8)  # patches of each image; four make a token


def qwen():
    torch.manual_seed(0)
    rotary = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    config = Qwen2VLConfig(
        text_config={**TEXT, "rope_parameters": rotary},
        vision_config={"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "patch_size": 2,
                       "spatial_merge_size": 2, "temporal_patch_size": 1, "in_channels": 3, "mlp_ratio": 1},
        image_token_id=IMAGE, vision_start_token_id=BEGIN, vision_end_token_id=END, video_token_id=61)  # fmt: skip
    return Qwen2VLForConditionalGeneration(config).eval()


def llava():
    torch.manual_seed(0)
    config = LlavaConfig(
        vision_config={"model_type": "clip_vision_model", "hidden_size": 16, "intermediate_size": 16,
                       "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 8, "patch_size": 4,
                       "projection_dim": 16},
        text_config={"model_type": "llama", **TEXT}, image_token_index=IMAGE, vision_feature_layer=-1)  # fmt: skip
    return LlavaForConditionalGeneration(config).eval()


def illustrated(whole=False):
    """Text, an image, text; the image in patches, or `whole` with 8 × 8 pixels, which make 4 tokens."""
    draw, rows = torch.Generator().manual_seed(2), []
    for number, (high, wide) in enumerate(GRIDS):
        before, after = (torch.randint(5, 55, (length + number % 3,), generator=draw).tolist() for length in (3, 5))
        tokens = 4 if whole else high * wide // 4
        ids = [*before, BEGIN, *[IMAGE] * tokens, END, *after]
        pixels = torch.randn(*((3, 8, 8) if whole else (high * wide, 12)), generator=draw)
        rows.append({"input_ids": ids, "labels": [-100] * (len(ids) - len(after)) + after,
                     "grid": [1, high, wide], "pixels": pixels})  # fmt: skip
    return rows


def axes(row):
    """Time, height and width of each token, shape (3, tokens): one after the other, and a grid in an image."""
    places, at = [], 0
    high, wide = row["grid"][1] // 2, row["grid"][2] // 2
    first = row["input_ids"].index(IMAGE)
    for slot in range(len(row["input_ids"])):
        inside = slot - first
        if 0 <= inside < high * wide:
            places.append((at, at + inside // wide, at + inside % wide))
            at += max(high, wide) if inside == high * wide - 1 else 0
        else:
            places.append((at, at, at))
            at += 1
    return torch.tensor(places).T


def packed(rows, fault=None, grids=True, mask=True):
    """All rows in one, with a mask of documents if `mask`, and positions of three axes if `grids`."""
    owner = torch.tensor([number for number, row in enumerate(rows) for _ in row["input_ids"]])
    allowed = (owner[:, None] == owner).tril()
    images = rows[::-1] if fault == "another order" else rows
    pixels = [row["pixels"] for row in images]
    counted = [torch.arange(len(row["input_ids"])) for row in rows]
    places = torch.cat([axes(row) for row in rows], 1)[:, None] if grids else torch.cat(counted)[None]
    if fault == "one axis":
        places = torch.cat(counted)[None]
    batch = {
        "input_ids": torch.tensor([[token for row in rows for token in row["input_ids"]]]),
        "labels": torch.tensor([[label for row in rows for label in (-100, *row["labels"][1:])]]),
        "position_ids": places,
        "pixel_values": torch.cat(pixels) if grids else torch.stack(pixels),
    }
    if grids:
        batch["image_grid_thw"] = torch.tensor([row["grid"] for row in images])
    if mask and fault != "no mask":
        least = torch.finfo(torch.float32).min
        batch["attention_mask"] = torch.zeros(allowed.shape).masked_fill(~allowed, least)[None, None]
    return batch


def of_qwen(fault=None):
    return qwen(), partial(packed, fault=fault), illustrated()


def of_llava(fault=None):
    return llava(), partial(packed, fault=fault, grids=False, mask=False), illustrated(whole=True)


RIGHT = {"images in packs, Qwen2-VL": of_qwen, "images in packs, Llava": of_llava}
FAULTS = {
    "images of Qwen2-VL in another order": (
        lambda: of_qwen("another order"), "same as alone", "images of the batch are not those of their placeholders"),
    "images of Llava in another order": (
        lambda: of_llava("another order"), "same as alone", "images of the batch are not those of their placeholders"),
    "one axis of positions for three": (lambda: of_qwen("one axis"), "positions", "one axis for three"),
    "images without a mask": (
        lambda: of_qwen("no mask"), "isolation from earlier sequences", "no document mask"),
}  # fmt: skip
