"""What `packlib check` is told to check: a function of yours, or a folder with a model of transformers."""

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from packlib.checks import one_of, shown

_LENGTHS = (9, 14, 5, 40, 7, 23, 12, 80)
_PARTS = ("model", "collate", "sequences")


def arguments_of(target: str, collate: str | None = None) -> dict[str, Any]:
    """The arguments of `check_packing` for "module:function", "file.py:function" or a folder.

    The function returns them as (model, collate, sequences) or in a mapping by their names. A folder holds config.json
    and safetensors; nothing in it is run. Its model gets tokens drawn at random, in the batches of transformers'
    padding-free collator unless `collate` says another.

    Raises:
        ValueError: in one sentence, if there is no such function or folder.
    """
    if Path(target).is_dir():
        found = _of_folder(Path(target))
    else:
        made = function_of(target)()
        found = dict(made) if isinstance(made, dict) else dict(zip(_PARTS, made, strict=True)) if _triple(made) else {}
    if not set(_PARTS) <= set(found):
        raise ValueError(f"{target} must return model, collate and sequences, not {shown(made)}.")
    return found if collate is None else {**found, "collate": function_of(collate)}


def _triple(made: Any) -> bool:
    return isinstance(made, tuple | list) and len(made) == len(_PARTS)


def function_of(target: str) -> Callable:
    """The function that "module:name" or "file.py:name" names, from here as Python finds it."""
    where, _, name = target.rpartition(":")
    if not where:
        raise ValueError(f"What to check must be module:function or a folder with a model, not {target!r}.")
    sys.path.insert(0, os.getcwd())
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(where).stem, where)
            module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
            spec.loader.exec_module(module)  # type: ignore[union-attr]
        else:
            module = importlib.import_module(where)
        return getattr(module, name)
    except (ImportError, AttributeError, FileNotFoundError) as error:
        raise ValueError(f"There is no function {target!r}: {error}.") from error
    finally:
        sys.path.remove(os.getcwd())


def _of_folder(folder: Path) -> dict[str, Any]:
    import transformers
    from transformers.models.auto import modeling_auto as auto

    if not (folder / "config.json").exists() or not list(folder.glob("*.safetensors")):
        raise ValueError(f"{folder} must hold config.json and safetensors of a model of transformers.")
    about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    name = next(iter(about.get("architectures") or ["none"]))
    causal, masked = (
        set(names.values())
        for names in (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    )
    one_of(f"The architecture in {folder / 'config.json'}", name, sorted(causal | masked))
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = getattr(transformers, name).from_pretrained(
        folder, local_files_only=True, use_safetensors=True, use_cache=False
    )
    special = {getattr(model.config, f"{kind}_token_id", None) for kind in ("pad", "bos", "eos", "cls", "sep", "mask")}
    pool = np.array(sorted(set(range(model.get_input_embeddings().num_embeddings)) - special))
    draw, sequences = np.random.default_rng(0), []
    for length in _LENGTHS:
        ids = draw.choice(pool, length)
        labels = np.where(np.arange(length) % 3 == 1, ids, -100) if name in masked - causal else ids
        sequences.append({"input_ids": ids.tolist(), "labels": labels.tolist()})
    return {"model": model, "collate": transformers.DataCollatorWithFlattening(), "sequences": sequences}
