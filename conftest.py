"""Settings of every test, notebooks too: two workers share two cores, and nothing may reach out to the network."""

import os

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # kernels that notebooks start inherit it too
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # the kernel's debugger warns otherwise

pytest_plugins = ["tests.cpu_seconds"]

settings.register_profile("packlib", deadline=None, derandomize=True)
settings.load_profile("packlib")
