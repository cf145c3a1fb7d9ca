"""Every notebook in JupyterLab in a real browser: run all cells, then move each control by keyboard."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
TOKEN = "packlib"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()
KEYS = {  # by element; the second key is for a control that stands at its end
    "DIV": ("ArrowRight", "ArrowLeft"),  # a slider's handle
    "INPUT": ("Space",),  # a check box
}

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def page():
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert found, "The browser test needs Chromium: apt-get install chromium, or pytest -m 'not browser'."
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser.new_page(viewport={"width": 1400, "height": 1000})
        browser.close()


def copy_without_outputs(path, folder):
    """So that all that is seen comes from this run."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, folder / path.name)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab that serves a copy of the notebooks."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "notebooks").mkdir()
    for name in NAMES:
        copy_without_outputs(ROOT / "notebooks" / f"{name}.ipynb", folder / "notebooks")
    tracker = folder / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    tracker.parent.mkdir(parents=True)
    tracker.write_text('{"windowingMode": "none"}')  # else cells out of sight are not in the page
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "JUPYTERLAB_SETTINGS_DIR": folder / "settings", "JUPYTERLAB_WORKSPACES_DIR": folder / "workspaces",
        "JUPYTER_RUNTIME_DIR": folder / "runtime", "IPYTHONDIR": folder / "ipython",
    }  # fmt: skip
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}",
        "--allow-root", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder / 'notebooks'}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **{k: str(v) for k, v in settings.items()}}
        )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{address}/api/status?token={TOKEN}", timeout=2)
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def idle(page):
    page.wait_for_selector("#jp-main-statusbar:has-text('| Idle')", timeout=60_000)


def run_all(page, lab, name):
    """Open a notebook, run all of its cells, and wait until they are done."""
    page.goto(f"{lab}/lab/tree/{name}.ipynb?token={TOKEN}&reset")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
    idle(page)
    page.click(".lm-MenuBar-itemLabel:text-is('Run')")
    page.click(".lm-Menu-itemLabel:text-is('Run All Cells')")
    cells = page.locator(".jp-CodeCell").count()
    last = page.locator(".jp-CodeCell .jp-InputPrompt").nth(cells - 1)
    deadline = time.monotonic() + 120
    while last.inner_text().strip() != f"[{cells}]:":
        assert time.monotonic() < deadline, f"cell {cells} shows {last.inner_text()!r}"
        assert not page.locator(".jp-OutputArea-output[data-mime-type*='error']").count(), "a cell raised"
        time.sleep(0.2)
    idle(page)


def stop_kernels(lab):
    """Else each notebook's memory stays taken while the others run."""
    headers = {"Authorization": f"token {TOKEN}"}
    with urllib.request.urlopen(urllib.request.Request(f"{lab}/api/sessions", headers=headers)) as answer:
        sessions = json.load(answer)
    for session in sessions:
        address = f"{lab}/api/sessions/{session['id']}"
        urllib.request.urlopen(urllib.request.Request(address, headers=headers, method="DELETE"))


def shown(explorer):
    image = explorer.locator("img")
    return image.get_attribute("src"), image.get_attribute("alt")


def changed(explorer, before, seconds=20):
    """Wait until both the picture and its words are others than `before`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        now = shown(explorer)
        if now[0] != before[0] and now[1] != before[1]:
            return now
        time.sleep(0.05)
    return None


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_can_run_it_and_move_every_control_by_keyboard(page, lab, name):
    errors = []

    def note(error):
        errors.append(error)

    page.on("pageerror", note)
    try:
        run_all(page, lab, name)
        images = page.locator(".jp-OutputArea-output img")
        assert images.count() > 0
        for image in images.all():
            assert image.get_attribute("alt") and image.evaluate("i => i.complete && i.naturalWidth > 0")
        explorers = page.locator(".jp-OutputArea-output:has(.widget-vbox):has(img)")
        assert explorers.count() > 0
        for explorer in explorers.all():
            move_every_control(page, explorer)
        assert not errors
    finally:
        page.remove_listener("pageerror", note)
        stop_kernels(lab)


def move_every_control(page, explorer):
    controls = explorer.locator(".noUi-handle, input[type=checkbox]")
    assert controls.count() > 0
    for control in controls.all():
        row = control.locator("xpath=ancestor::*[contains(@class, 'widget-inline-hbox')][1]")
        label = row.locator("label").first.inner_text()
        assert label, "a control without a label"
        before = shown(explorer)
        for key in KEYS[control.evaluate("c => c.tagName")]:
            control.scroll_into_view_if_needed()
            control.focus()
            page.keyboard.press(key)
            if changed(explorer, before, seconds=10):
                break
        else:
            pytest.fail(f"the control {label!r} does not move the picture and its words")
