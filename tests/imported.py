"""What importing packlib changes outside packlib, and whether a pickled model works then.

`python -m tests.imported FILE` prints as JSON the names of what was changed, and the loss of the model in FILE on the
batch beside it. What packlib imports is imported before, since it changes this and that itself.
"""

import ast
import atexit
import csv
import decimal
import gc
import importlib.util
import json
import locale
import logging
import multiprocessing
import os
import pkgutil
import random
import signal
import sys
import threading
import traceback
import warnings
from pathlib import Path

PACKAGES = ("packlib", "packbook")  # which are imported below, and not before


def state():
    """What others see of this process: name to something that prints the same while it is the same."""
    import datasets
    import matplotlib
    import numpy as np
    import torch
    import transformers as hf
    from matplotlib import font_manager
    from torch.nn.modules import module as hooks

    loggers = [logging.root, *(log for log in logging.root.manager.loggerDict.values() if hasattr(log, "handlers"))]
    settings = [(log.name, log.level, log.handlers, log.filters, not log.propagate, log.disabled) for log in loggers]
    return {
        "transformers' attention": dict(hf.AttentionInterface._global_mapping),
        "transformers' masks": dict(hf.AttentionMaskInterface._global_mapping),
        "transformers' classes": [hf.CONFIG_MAPPING._extra_content, hf.MODEL_MAPPING._extra_content],
        "messages": (hf.logging.get_verbosity(), datasets.logging.get_verbosity()),
        "matplotlib": (dict(matplotlib.rcParams), [font.fname for font in font_manager.fontManager.ttflist]),
        "NumPy's settings": (np.geterr(), np.geterrcall(), np.get_printoptions()),
        "torch's settings": (
            torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled(),
            torch.get_float32_matmul_precision(), torch.backends.cuda.flash_sdp_enabled(),
            vars(torch._tensor_str.PRINT_OPTS), torch.distributed.is_initialized(),
            torch.multiprocessing.get_sharing_strategy(), torch._dynamo.config.get_config_copy(),
        ),
        "torch's hooks": {name: value for name, value in vars(hooks).items() if name.startswith("_global")},
        "random states": (random.getstate(), np.random.mtrand._rand.get_state(), torch.get_rng_state().tolist()),
        "warnings": (warnings.filters, warnings.showwarning),
        "loggers": [setting for setting in settings if any(setting[1:])],
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "hooks": (atexit._ncallbacks(), sys.excepthook, sys.displayhook, threading.excepthook, gc.callbacks),
        "imports": (sys.path, sys.meta_path, sys.path_hooks, sys.dont_write_bytecode),
        "limits": (sys.getrecursionlimit(), csv.field_size_limit(), decimal.getcontext()),
        "environment": (dict(os.environ), os.getcwd(), locale.setlocale(locale.LC_ALL), sys.stdout, sys.stderr),
        "processes": (threading.enumerate(), multiprocessing.get_start_method(allow_none=True)),
    }  # fmt: skip


def imports_of_others():
    """The statements at the top of packlib's files that import something else; they change this and that themselves."""
    folders = [Path(importlib.util.find_spec(package).origin).parent for package in PACKAGES]
    for path in [path for folder in folders for path in folder.rglob("*.py")]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            name = node.names[0].name if isinstance(node, ast.Import) else getattr(node, "module", None)
            if isinstance(node, ast.Import | ast.ImportFrom) and name.partition(".")[0] not in PACKAGES:
                yield ast.unparse(node)


def loss_of(file):
    """Load a pickled model and the batch beside it; return its loss, or the words of the error that this raised."""
    import torch

    try:
        model, batch = torch.load(file, weights_only=False)
        return model(**batch).loss.item()
    except Exception:
        return traceback.format_exc()


def main():
    for statement in sorted({*imports_of_others()} - {"from __future__ import annotations"}):
        exec(statement, {})
    before = {name: repr(value) for name, value in state().items()}
    for package in map(importlib.import_module, PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.rpartition(".")[2] != "__main__":
                importlib.import_module(module.name)
    changed = [name for name, value in state().items() if repr(value) != before[name]]
    print(json.dumps({"changed": changed, "loss": loss_of(sys.argv[1])}))


if __name__ == "__main__":
    main()
