"""What importing packlib changes outside packlib: `python -m tests.imported` prints it as JSON.

A first process imports all of packlib and says which modules of others came along. A second one imports those, since
they change this and that themselves, and only then packlib, module by module, with a look around after each.
"""

import atexit
import contextlib
import copyreg
import csv
import decimal
import faulthandler
import gc
import importlib
import json
import locale
import logging
import multiprocessing
import os
import pkgutil
import random
import signal
import subprocess
import sys
import threading
import warnings

import packlib

OURS = [module.name for module in pkgutil.walk_packages(packlib.__path__, "packlib.")]


def state():
    """What others see of this process: name to something that prints the same while it is the same."""
    import datasets
    import matplotlib
    import numba
    import numpy as np
    import torch
    import transformers as hf
    from matplotlib import font_manager
    from torch.nn.modules import module as hooks

    loggers = [
        logging.root,
        *filter(lambda log: isinstance(log, logging.Logger), logging.root.manager.loggerDict.values()),
    ]
    settings = [(log.name, log.level, log.handlers, log.filters, not log.propagate, log.disabled) for log in loggers]
    return {
        "transformers' attention": dict(hf.AttentionInterface._global_mapping),
        "transformers' masks": dict(hf.AttentionMaskInterface._global_mapping),
        "transformers' classes": [hf.CONFIG_MAPPING._extra_content, hf.MODEL_MAPPING._extra_content],
        "transformers' messages": hf.logging.get_verbosity(),
        "datasets' messages": (datasets.logging.get_verbosity(), datasets.is_progress_bar_enabled()),
        "matplotlib's settings": dict(matplotlib.rcParams),
        "matplotlib's fonts": [font.fname for font in font_manager.fontManager.ttflist],
        "matplotlib's names": (list(matplotlib.colormaps), matplotlib.projections.get_projection_names()),
        "Numba's listeners": {kind: [*some] for kind, some in numba.core.event._registered.items() if some},
        "NumPy's settings": (np.geterr(), np.geterrcall(), np.get_printoptions()),
        "torch's settings": (
            torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads(), torch.is_grad_enabled(),
            torch.get_num_interop_threads(), torch.are_deterministic_algorithms_enabled(),
            torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled(),
            torch.is_autocast_enabled("cpu"), vars(torch._tensor_str.PRINT_OPTS), torch.distributed.is_initialized(),
            torch.multiprocessing.get_sharing_strategy(), torch._dynamo.config.get_config_copy(),
        ),
        "torch's hooks": {name: value for name, value in vars(hooks).items() if name.startswith("_global")},
        "random states": (random.getstate(), np.random.mtrand._rand.get_state(), torch.get_rng_state().tolist()),
        "warnings": (warnings.filters, warnings.showwarning),
        "loggers": [setting for setting in settings if any(setting[1:])],
        "logging": (logging.root.manager.disable, logging.raiseExceptions, logging.getLoggerClass()),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "at exit": atexit._ncallbacks(),
        "hooks": (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook, sys.gettrace()),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "imports": (sys.path, sys.meta_path, sys.path_hooks, sys.dont_write_bytecode),
        "limits": (
            sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits(), csv.field_size_limit(),
        ),
        "environment": (dict(os.environ), os.getcwd(), locale.setlocale(locale.LC_ALL), decimal.getcontext()),
        "processes": (threading.enumerate(), multiprocessing.get_start_method(allow_none=True)),
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.callbacks),
        "other tables": (csv.list_dialects(), sorted(map(repr, copyreg.dispatch_table)), faulthandler.is_enabled()),
    }  # fmt: skip


def main():
    if len(sys.argv) == 1:
        for name in OURS:
            importlib.import_module(name)
        others = [name for name in sys.modules if name.partition(".")[0] not in ("packlib", "tests", "__main__")]
        done = subprocess.run([sys.executable, "-m", "tests.imported", "-"], input="\n".join(others), text=True)
        sys.exit(done.returncode)
    for name in sys.stdin.read().split():
        with contextlib.suppress(ImportError):  # some are there only under the name of another
            importlib.import_module(name)
    changes, before = [], {name: repr(value) for name, value in state().items()}
    for module in OURS:
        importlib.import_module(module)
        for name, value in state().items():
            if repr(value) != before[name]:
                changes.append(f"{module} changes {name}")
                before[name] = repr(value)
    print(json.dumps(changes))


if __name__ == "__main__":
    main()
