"""Every decoder and encoder of transformers, small: random weights, a batch of packs, and each sequence alone."""

import contextlib
import io
import os
import warnings
from collections.abc import Iterator

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from packlib.batches import IGNORED, PackedBatch

VOCABULARY = 64
PACKS = ((5, 1, 7), (13,), (2, 8, 1))  # the lengths of the sequences in each pack; 14 slots
TOLERANCE = {"roformer": 1e-7}  # 1e-10; its table of sines is computed in float32
MAPPINGS = {"causal": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, "masked": MODEL_FOR_MASKED_LM_MAPPING_NAMES}

# What makes a model small, under each of the names that configurations have for it; others are left alone.
SMALL = {
    **dict.fromkeys(("vocab_size", "unpadded_vocab_size"), VOCABULARY),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size"), 32),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "decoder_ffn_dim", "encoder_ffn_dim", "d_inner"), 48),
    **dict.fromkeys(("word_embed_proj_dim",), 32),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "ffn_hidden_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers"), 4),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads",), 2),
    **dict.fromkeys(("head_dim", "v_head_dim", "global_head_dim", "rotary_dim"), 8),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk"), 2),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), 64),
    **dict.fromkeys(("sliding_window", "attention_chunk_size", "local_attention"), 4),
    **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob", "embd_pdrop", "attn_pdrop"), 0.0),
    **dict.fromkeys(("resid_pdrop", "dropout", "attention_dropout", "activation_dropout", "layerdrop"), 0.0),
    **dict.fromkeys(("hidden_dropout", "embedding_dropout", "emb_pdrop", "ffn_pdrop"), 0.0),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "index_head_dim", "qk_head_dim"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "o_lora_rank"), 8),
    **dict.fromkeys(("index_topk",), 4),
    **dict.fromkeys(("index_n_heads",), 32),  # so that no two index scores are equal: all ReLUs at zero
    **dict.fromkeys(("n_group", "topk_group", "num_expert_group", "first_k_dense_replace", "n_shared_experts"), 1),
    **dict.fromkeys(("vocab_size_per_layer_input",), VOCABULARY),
    **dict.fromkeys(("hidden_size_per_layer_input", "laurel_rank", "expert_ffn_hidden_size"), 8),
    **dict.fromkeys(("dff", "encoder_hidden_dim"), 48),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 1),
}

# What some families need besides, or some of their variants: both kinds of layers, a window that is switched on.
FULL, NARROW = {"num_key_value_heads": 4}, {"head_dim": 8}
ROPE = {"rope_type": "default", "rope_theta": 1e4}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 16}
DELTA = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
}  # fmt: skip
MORE: dict[str, dict] = {
    **dict.fromkeys(("axk1", "axk2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite"), FULL),
    **dict.fromkeys(("glm_moe_dsa", "minicpm3", "youtu", "nemotron", "esmc", "hy_v4", "sarvam_mla"), FULL),
    **dict.fromkeys(("ministral", "hunyuan_v1_dense", "hunyuan_v1_moe"), NARROW),
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"hidden_size": 32, "ffn_hidden_size": 32},
    },
    "deepseek_v2": FULL | {"num_experts_per_tok": 2},
    "dory": {"n_input_layers": 1, "n_output_layers": 1},  # between them two layers that run twice
    "inkling2_loop_text": {
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2,
        "swa_head_dim": 8,
        "n_layers_per_attn_res_block": 1,
        "loop_layer_index_start": 1,
        "loop_layer_index_end": 3,
    },
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "big_bird": {"attention_type": "original_full"},
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROPE, "sliding_attention": ROPE}},
    "neomme": {"head_dim": 16},
    "longcat_flash": {"head_dim": 8, "qk_rope_head_dim": 8, "num_key_value_heads": 4},
    "esm": {"vocab_size": VOCABULARY, "mask_token_id": 5, "pad_token_id": 1},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "window_size": 4},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "bamba": MAMBA | {"attn_layer_indices": [1, 3]},
    "falcon_h1": MAMBA | {"mamba_d_ssm": 64},
    "granitemoehybrid": MAMBA | {"layer_types": ["linear_attention", "full_attention"] * 2},
    "mamba2": {"num_heads": 8, "n_groups": 1, "state_size": 16},
    "nemotron_h": {"ssm_state_size": 16, "mamba_num_heads": 8, "mamba_head_dim": 8, "n_groups": 1},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid"] * 2, "mamba_d_state": 16, "num_mem_blocks": 1},
    "zamba": {"layers_block_type": ["linear_attention", "hybrid"] * 2},
    **dict.fromkeys(("kimi_linear", "bailing_hybrid"), FULL | DELTA | {"linear_num_heads": 4, "linear_head_dim": 8}),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "olmo_hybrid"), DELTA),
    "qwen4_exp_text": DELTA
    | {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
        "indexer_budget": 4,
        "indexer_compress_ratio": 2,
        "ngram_vocab_size_base": 64,
        "heads_per_ngram": 2,
        "hc_lowrank": 8,
    },
    "zaya": {"num_experts_per_tok": 1},
    "luke": {"entity_vocab_size": 8, "entity_emb_size": 8},
    "roc_bert": {"pronunciation_vocab_size": 8, "shape_vocab_size": 8, "shape_embed_dim": 8},
    "xmod": {"default_language": "en_XX"},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 8},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 4},
    "longformer": {"attention_window": [4, 4, 8, 8]},
    "xlnet": {"clamp_len": 6},
}
DECODER = {"is_decoder": True, "causal": True, "attn_type": "uni"}  # what makes a decoder of some encoders
UNSHIFTED = {"xlm", "xlnet"}  # their loss takes the next token's label in the place of this one


class InDouble(TorchFunctionMode):
    """Where transformers raises numbers to float32, keep float64: what remains are faults, not rounding."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        swap = {torch.float32: torch.float64}
        arguments = [swap.get(a, a) if isinstance(a, torch.dtype) else a for a in arguments]
        options = {k: swap.get(v, v) if isinstance(v, torch.dtype) else v for k, v in (options or {}).items()}
        return function(*arguments, **options)


def small_config(kind: str, model_type: str, **changes):
    """Return a few layers of each kind that the family has, with windows shorter than the sequences."""
    config_class = CONFIG_MAPPING[model_type]
    known = config_class()
    known.allow_global_per_layer_attribute_access = True
    small = {name: value for name, value in SMALL.items() if _has(known, name)}
    kinds = sorted(set(getattr(known, "layer_types", None) or ()))
    if hasattr(known, "sliding_window"):  # switch it on
        small["sliding_window"] = 4
        kinds += ["sliding_attention"] if kinds == ["full_attention"] else []
    if hasattr(known, "use_sliding_window"):
        small |= {"use_sliding_window": True, "max_window_layers": 2}
    name = config_class.attribute_map.get("layer_types", "layer_types")
    if kinds and not isinstance(getattr(config_class, name, None), property):
        small[name] = [kinds[i % len(kinds)] for i in range(4)]
    if kind == "causal":
        small |= {name: value for name, value in DECODER.items() if hasattr(known, name)}
    config = config_class(**small | MORE.get(model_type, {}) | changes)
    config._experts_implementation = "eager"  # the grouped product takes no double precision
    return config


def _has(config, name: str) -> bool:
    return not isinstance(getattr(type(config), name, None), property) and getattr(config, name, None) is not None


def randomize(model: PreTrainedModel, seed: int = 0) -> None:
    """Set every parameter to other numbers, biases and norms included, so that each fault shows."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:  # a table of sines
            continue
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            parameter.copy_(1 + 0.2 * noise if parameter.dim() == 1 and "norm" in name.lower() else 0.3 * noise)


def make_batch(kind: str) -> PackedBatch:
    """Return random tokens from 4 up; a third of them have labels, other tokens where the model is masked."""
    generator = torch.Generator().manual_seed(7)
    slots = 1 + max(map(sum, PACKS))
    ids, segments = torch.zeros(2, len(PACKS), slots, dtype=torch.int64)
    for row, lengths in enumerate(PACKS):
        ids[row, : sum(lengths)] = torch.randint(4, VOCABULARY, (sum(lengths),), generator=generator)
        at = torch.arange(1, len(lengths) + 1).repeat_interleave(torch.tensor(lengths))
        segments[row, : sum(lengths)] = at
    if kind == "causal":
        return PackedBatch(input_ids=ids, segment_ids=segments)
    chosen = (torch.rand(ids.shape, generator=generator) < 0.4) & (segments > 0)
    labels = torch.where(chosen, torch.randint(4, VOCABULARY, ids.shape, generator=generator), IGNORED)
    return PackedBatch(input_ids=ids, segment_ids=segments, labels=labels)


def alone(model: PreTrainedModel, kind: str, batch: PackedBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits of the predicted tokens and the loss of transformers' own class, a sequence at a time."""
    logits, total, count = [], 0, 0
    for row, segments in enumerate(batch.segment_ids):
        for segment in range(1, int(segments.max()) + 1):
            ids = batch.input_ids[row][segments == segment]
            labels = ids if kind == "causal" else batch.labels[row][segments == segment]
            targets = labels[1:] if kind == "causal" else labels
            if (targets != IGNORED).any():
                own = {"use_cache": False} if kind == "causal" else {}
                given = labels
                if kind == "causal" and model.config.model_type in UNSHIFTED:
                    given = torch.cat([targets, targets.new_tensor([IGNORED])])
                output = model(input_ids=ids[None], labels=given[None], **own)
                scores = output.logits[0, :-1] if kind == "causal" else output.logits[0]
                logits.append(scores[targets != IGNORED])
                total = total + output.loss * (targets != IGNORED).sum()
                count += int((targets != IGNORED).sum())
    return torch.cat(logits), total / count


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    transformers.logging.set_verbosity_error()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield
