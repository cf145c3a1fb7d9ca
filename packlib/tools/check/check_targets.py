"""What `packlib check` is told to check: a function of yours, or a folder with a model of transformers."""

import importlib
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from packlib.arguments import listed, one_line, one_of, shown
from packlib.files import named, read_json, regular_file
from packlib.tools.check.places import is_own, place_of

if TYPE_CHECKING:
    from packlib.tools.check.findings import PackingCheck

_LENGTHS = (9, 14, 5, 40, 7, 23, 12, 80)  # of the random sequences for a model in a folder
_PARTS = ("model", "collate", "sequences")  # what a function returns to be checked


def check_target(
    target: str, collate: str | None = None, progress: bool | None = None, **asked: Any
) -> "PackingCheck":
    """Run `check_packing` on what "module:function", "file.py:function" or a folder names.

    The function returns the arguments as (model, collate, sequences) or in a mapping by their names. A folder holds
    config.json and safetensors; nothing in it is run. Its model gets tokens drawn at random, in the batches of
    transformers' padding-free collator unless `collate` says another.

    Args:
        collate: "module:function" or "file.py:function" of another collator.
        asked: further arguments of `check_packing`.

    Raises:
        ValueError, OSError: in one sentence, whatever stopped the check: a `SystemExit` of the code under check too.
    """
    is_folder = Path(target).is_dir()
    with modules_beside(name for name in ("" if is_folder else target, collate) if name):
        arguments = _of_folder(Path(target)) if is_folder else _of_function(target)
        if collate is not None:
            arguments = {**arguments, "collate": function_of(collate)}
        from packlib.tools.check.checking import check_packing  # loads torch, which a refusal does not need

        with _in_one_sentence(target):
            return check_packing(**{"progress": progress} | arguments | asked)


@contextmanager
def modules_beside(functions: Iterable[str]) -> Iterator[None]:
    """Find modules in this folder and beside each file that is named, as with `python file.py`; later as before.

    A model alone needs none, and nothing that lies beside it may be taken for a package.

    Args:
        functions: "module:name" or "file.py:name".
    """
    path_before = sys.path[:]
    holders = [Path(function.rpartition(":")[0]) for function in functions]
    files = [holder for holder in holders if holder.suffix == ".py"]
    sys.path[:0] = [os.getcwd()] * bool(holders) + [str(file.resolve().parent) for file in files]
    try:
        yield
    finally:
        sys.path[:] = path_before
        for file in files:
            if isinstance(sys.modules.get(file.stem), _FileModule):
                del sys.modules[file.stem]


def _of_function(target: str) -> dict[str, Any]:
    """Call a function, and return what it gives to be checked, by names."""
    function = function_of(target)
    with _in_one_sentence(target):
        arguments = function()
    if isinstance(arguments, tuple | list) and len(arguments) == len(_PARTS):
        return dict(zip(_PARTS, arguments, strict=True))
    if not isinstance(arguments, dict) or not set(_PARTS) <= arguments.keys():
        raise ValueError(f"{named(target)} must return model, collate and sequences, not {shown(arguments)}.")
    return arguments


def function_of(target: str) -> Callable:
    """Return the function that "module:name" or "file.py:name" names."""
    module, _, name = target.rpartition(":")
    if not module:
        raise ValueError(f"What to check must be module:function or a folder with a model, not {target!r}.")
    path = regular_file(module, "a Python file") if module.endswith(".py") else None
    with _in_one_sentence(target):
        functions = vars(importlib.import_module(module) if path is None else _run_file(path))
    if name not in functions:
        raise ValueError(f"There is no function {target!r}: {module} has no {name!r}.")
    return functions[name]


class _FileModule(types.ModuleType):
    """The module that `_run_file` makes of a file."""


def _run_file(path: Path) -> types.ModuleType:
    """Run a Python file as a module, and return it; its compiled code is not stored.

    Workers of a loader that start by spawn or forkserver import the module by its name. So it stays in `sys.modules`
    until `modules_beside` ends. A module that already has this name keeps it.
    """
    module = _FileModule(path.stem)
    module.__file__ = str(path)
    namesake = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    finally:
        if namesake is not None:
            sys.modules[path.stem] = namesake
    return module


@contextmanager
def _in_one_sentence(target: str | Path) -> Iterator[None]:
    """Say in one sentence what stopped the code under check, and where; also if it ends the process, as argparse does.

    Raises:
        ValueError: that sentence.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        raise ValueError(f"{named(target)} could not be checked: {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    """Say what an error says; of the code under check, with the kind of the error and the line."""
    sentence = one_line(str(error), 400)
    if is_own(error):
        return sentence
    place = f" ({line})" if (line := place_of(error)) else ""
    return f"{': '.join(filter(None, [type(error).__name__, sentence.rstrip('.')]))}{place}."


def _of_folder(folder: Path) -> dict[str, Any]:
    """Load a model of transformers from a folder; return it with a collator and random sequences, by names."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    if (folder / "adapter_config.json").exists():
        raise ValueError(f"{named(folder)} holds an adapter, which would be left out: merge it into its model first.")
    if not (folder / "config.json").exists() or not list(folder.glob("*.safetensors")):
        raise ValueError(f"{named(folder)} must hold config.json and safetensors of a model of transformers.")
    names = read_json(folder / "config.json", "model's configuration", constants=True).get("architectures")
    architecture = names[0] if isinstance(names, list) and names else names
    causal = set(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    masked = set(auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.values())
    name = one_of(f"The architecture in {named(folder / 'config.json')}", architecture, sorted(causal | masked))
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with _in_one_sentence(folder), warnings.catch_warnings(action="ignore"):
        model, report = getattr(transformers, name).from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,  # without it transformers asks whether code of the folder may run
            use_safetensors=True,
            use_cache=False,
            ignore_mismatched_sizes=True,  # they are in the report, by name
            output_loading_info=True,
        )
        _check_weights(model, **report)
    sequences = _random_sequences(model, is_masked=name in masked - causal)
    return {"model": model, "collate": transformers.DataCollatorWithFlattening(), "sequences": sequences}


def _random_sequences(model: Any, is_masked: bool) -> list[dict[str, Any]]:
    """Draw sequences of tokens that are no special ones; of a masked model, a third of them have a label."""
    pool = np.arange(model.get_input_embeddings().num_embeddings)
    for kind in ("pad", "bos", "eos", "cls", "sep", "mask"):
        special = getattr(model.config, f"{kind}_token_id", None)  # one, several, or None
        pool = np.setdiff1d(pool, [] if special is None else special)
    draw = np.random.default_rng(0)
    sequences = []
    for length in _LENGTHS:
        ids = draw.choice(pool, length)
        labels = np.where(np.arange(length) % 3 == 1, ids, -100) if is_masked else ids
        sequences.append({"input_ids": ids.tolist(), "labels": labels.tolist()})
    return sequences


def _check_weights(model: Any, missing_keys: set, mismatched_keys: set, **_: Any) -> None:
    """Raise a ValueError unless the model has all of its weights from the folder."""
    wrong = {
        f"weights of {type(model).__name__} are missing": missing_keys,
        "weights have another shape than config.json says": {name for name, *_ in mismatched_keys},
        "weights are not finite": {name for name, value in model.named_parameters() if not value.isfinite().all()},
    }
    for fault, names in wrong.items():
        if names:
            raise ValueError(f"{fault}: {listed(sorted(names))}.")
