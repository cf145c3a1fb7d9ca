"""Kernels for tests: forked from one process that has loaded the large libraries, which takes each kernel seconds.

Folder, environment and modules of packlib are a kernel's own, as else. What a test starts by a command line (`packlib
run`, papermill, JupyterLab) starts its kernels without this.
"""

import multiprocessing
import os
import sys
from multiprocessing import forkserver
from pathlib import Path

from jupyter_client.provisioning import local_provisioner

TESTS = Path(__file__).parent
LIBRARIES = [
    "ipykernel.kernelapp", "ipykernel.ipkernel", "ipywidgets", "matplotlib.backends.backend_agg", "scipy.optimize",
    "torch", "transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2",
]  # fmt: skip
launch_process = local_provisioner.launch_kernel


class ForkedKernel(multiprocessing.get_context("forkserver").Process):
    """A kernel's process, with what jupyter_client asks of a `Popen`."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> int | None:
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


def launch(command: list[str], env: dict[str, str], cwd: str | None = None, **others) -> object:
    """In place of `jupyter_client.launcher.launch_kernel`."""
    is_python = command[:3] == [sys.executable, "-m", "ipykernel_launcher"]
    if not is_python or env.get("PYTHONPATH") != os.environ["PYTHONPATH"]:
        return launch_process(command, env=env, cwd=cwd, **others)
    ready, begins = multiprocessing.Pipe(duplex=False)
    kernel = ForkedKernel(target=run, args=(command[3:], env, cwd or os.getcwd(), begins))
    kernel.start()
    ready.recv()  # it leads a group of processes, to which signals go
    return kernel


def run(arguments: list[str], environment: dict[str, str], folder: str, begins: object) -> None:
    """The kernel, in the new process."""
    os.setsid()
    begins.send(None)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    multiprocessing.set_start_method(None, force=True)  # Python's default
    given = environment["PYTHONPATH"].split(os.pathsep)
    sys.path[:] = [path for path in sys.path if path in given or Path(path) not in (TESTS, TESTS.parent, Path())]
    sys.argv[:] = ["ipykernel_launcher", *arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()


def begin() -> None:
    """Have kernels that this process starts forked from now on."""
    multiprocessing.set_forkserver_preload(LIBRARIES)
    local_provisioner.launch_kernel = launch


def end() -> None:
    """End what is left, and wait for it, so that its time counts as that of the tests."""
    for process in multiprocessing.active_children():
        process.kill()
        process.join()
    forkserver._forkserver._stop()
