"""Notebooks in JupyterLab in a real browser: run all cells, then move controls of each explorer by keyboard.

One notebook runs in full. The explorers of the others stand together in one more, with one page to load and one kernel
to start, and of each one control is moved, in turn of each kind. `make test-all` runs all in full, and moves all.
"""

import importlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from packbook.explorers import Explorer
from packbook.results import meaning
from packbook.run.copies import make_copies
from packbook.run.execution import write

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
TOKEN = "packlib"
PATIENCE = 120_000  # milliseconds for all cells of a notebook, and for what must happen soon on a busy machine
EXPLORERS = ".jp-OutputArea-output:has(.widget-vbox):has(img)"
CONTROLS = ".noUi-handle, input[type=checkbox], .widget-toggle-buttons button:not(.mod-active)"
KEYS = {"DIV": ("ArrowRight", "ArrowLeft"), "INPUT": ("Space",), "BUTTON": ("Space",)}  # a slider may stand at its end
CHOSEN = "c => c.closest('.widget-toggle-buttons').querySelector('.mod-active')"
ALL = bool(os.environ.get("PACKLIB_ALL"))
GUESSED = "02_greedy_packing"  # where a guess is typed and the game is played
IN_FULL = NAMES if ALL else [GUESSED]
TOGETHER = "91_explorers"  # of the other notebooks

FINISHED = """number => document.querySelector(".jp-OutputArea-output[data-mime-type*='error']")
  || [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].at(-1).innerText.trim() === `[${number}]:`"""
ALERTS = """explorer => {
  window.alerts = window.alerts || [];
  const look = () => explorer.querySelectorAll("[role=alert]").forEach(said => window.alerts.push(said.innerText));
  new MutationObserver(look).observe(explorer, { childList: true, subtree: true });
  look();
}"""
SEEN = "explorer => { const i = explorer.querySelector('img'); return [i.src, i.alt]; }"
BOTH_NEW = """([explorer, src, alt]) => {
  const image = explorer.querySelector("img");
  return window.alerts[0] || (image && image.src !== src && image.alt !== alt); }"""
FILTERS = """() => ["false", "true"].map(light => {
  document.body.dataset.jpThemeLight = light;  // as JupyterLab's themes set it
  return [...document.querySelectorAll(".jp-OutputArea-output img")].map(image => getComputedStyle(image).filter); })"""
CUT_OFF = """explorer => [...explorer.querySelectorAll("label, .jupyter-button")].filter(said => {
  const words = document.createRange(), look = getComputedStyle(said);
  words.selectNodeContents(said);
  const room = said.getBoundingClientRect().width - parseFloat(look.paddingLeft) - parseFloat(look.paddingRight);
  return words.getBoundingClientRect().width > room + 0.1; }).map(said => said.innerText)"""
POSITION = "c => c.ariaValueNow ?? c.getAttribute('aria-valuenow') ?? c.checked ?? c.classList.contains('mod-active')"

NAMED = """from packlib.lengths import LengthHistogram
LengthHistogram([0, 3], name='$x$ and \\\\(y\\\\) <img src=x onerror=alert(1)>')"""  # a name that is no formula

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def page(chromium):
    page = chromium.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(PATIENCE)
    yield page
    page.close()


def is_explorer(cell):
    return any("explorer" in meaning(output) for output in cell.get("outputs", ()))


def cells_of(name):
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells


def explorers_of(name):
    """The explorers of a chapter; each can be made without arguments."""
    lesson = importlib.import_module(f"packbook.n{name}.lesson")
    kinds = [value for value in vars(lesson).values() if isinstance(value, type) and issubclass(value, Explorer)]
    return [kind for kind in kinds if kind.__module__ == lesson.__name__]


OTHERS = [(name, kind) for name in NAMES if name not in IN_FULL for kind in explorers_of(name)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab that serves a copy of the notebooks."""
    folder = tmp_path_factory.mktemp("lab")
    make_copies(ROOT / "notebooks", folder / "notebooks")  # as `make lab` does
    alone = [f"from {kind.__module__} import {kind.__name__}\n{kind.__name__}()" for _, kind in OTHERS]
    cells = [nbformat.v4.new_markdown_cell("# Explorers"), *map(nbformat.v4.new_code_cell, [NAMED, *alone])]
    write(nbformat.v4.new_notebook(cells=cells), folder / "notebooks" / f"{TOGETHER}.ipynb")
    tracker = folder / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    tracker.parent.mkdir(parents=True)
    tracker.write_text('{"windowingMode": "none"}')  # else cells out of sight are not in the page
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "JUPYTERLAB_SETTINGS_DIR": folder / "settings", "JUPYTERLAB_WORKSPACES_DIR": folder / "workspaces",
        "JUPYTER_RUNTIME_DIR": folder / "runtime", "IPYTHONDIR": folder / "ipython", "XDG_DATA_HOME": folder,
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
        yield SimpleNamespace(address=address)
    finally:
        server.terminate()
        server.wait(30)


def idle(page):
    page.wait_for_selector("#jp-main-statusbar:has-text('| Idle')")


def run_all(page, lab, name):
    """Open a notebook, run all of its cells, and wait until they are done."""
    page.goto(f"{lab.address}/lab/tree/{name}.ipynb?token={TOKEN}&reset")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    idle(page)
    page.click(".lm-MenuBar-itemLabel:text-is('Run')")
    page.click(".lm-Menu-itemLabel:text-is('Run All Cells')")
    page.wait_for_function(FINISHED, arg=page.locator(".jp-CodeCell").count())
    errors = page.locator(".jp-OutputArea-output[data-mime-type*='error']")
    errors = errors.or_(page.locator(".jp-OutputArea-output[data-mime-type*='stderr']", has_text="Traceback"))
    assert not errors.count(), errors.first.inner_text()
    idle(page)


def stop_kernels(lab):
    """Stop all kernels, because otherwise the memory of each notebook stays taken while the others run."""
    headers = {"Authorization": f"token {TOKEN}"}
    with urllib.request.urlopen(urllib.request.Request(f"{lab.address}/api/sessions", headers=headers)) as answer:
        sessions = json.load(answer)
    for session in sessions:
        address = f"{lab.address}/api/sessions/{session['id']}"
        urllib.request.urlopen(urllib.request.Request(address, headers=headers, method="DELETE"))


@pytest.mark.parametrize("name", [*IN_FULL, *[TOGETHER] * (not ALL)])
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
            assert image.evaluate("i => i.complete && i.naturalWidth > 0") and image.get_attribute("width") == "800"
            # JupyterLab shows a PNG without the words in its metadata; an explorer's picture is HTML of our own
            assert image.get_attribute("alt") or image.evaluate("i => !i.closest('.widget-vbox')")
        dark, light = page.evaluate(FILTERS)
        assert set(dark) == {"invert(0.933) hue-rotate(180deg)"} and set(light) == {"none"}
        explorers = page.query_selector_all(EXPLORERS)
        assert len(explorers) == (sum(map(is_explorer, cells_of(name))) if name in NAMES else len(OTHERS))
        kinds = set()  # of the controls that were moved
        for explorer in explorers:
            explorer.evaluate(ALERTS)
            assert explorer.query_selector(".widget-vbox").bounding_box()["height"] <= 640, "it does not fit a screen"
            assert explorer.evaluate(CUT_OFF) == [], "the name of a control or of a choice is cut off"
            move_controls(page, explorer, kinds, all_of_them=name in NAMES)
        assert name in NAMES or kinds == set(KEYS)
        assert not page.evaluate("window.alerts")
        assert not errors
        if name == TOGETHER:
            seen = page.get_by_text(r"$x$ and \(y\) <img src=x onerror=alert(1)>: 3 sequences")
            assert seen.count() == 1 and not page.locator("mjx-container").count(), "a name is no formula"
        if name == GUESSED:
            type_a_guess(page)
            pack_by_hand(page)
    finally:
        page.remove_listener("pageerror", note)
        stop_kernels(lab)


def pack_by_hand(page):
    """The game that the site has too; JupyterLab must not take its keys."""
    game = page.locator(".pack-game")
    game.get_by_role("button", name="Next level").click()
    for key in "0110":  # the first opens a pack, two join it, the fourth opens another
        page.keyboard.press(key)
    assert "yours is proven best" in game.locator("[role=status]").inner_text()


def type_a_guess(page):
    """As a reader does: into the first cell that asks, then on to its answer, by keyboard."""
    outputs = [output for cell in cells_of(GUESSED) for output in cell.get("outputs", ())]
    truth = next(o.metadata.packlib.answer for o in outputs if "answer" in o.metadata.get("packlib", ()))
    asks = page.locator(".jp-CodeCell:has-text('guess = ...')").first
    answer = page.locator(".jp-CodeCell", has_text='reveal("').first
    assert not answer.locator("details p").is_visible()
    asks.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(f'guess = "{truth}"')
    for _ in ("the guess", "what computes the answer", "the answer"):
        page.keyboard.press("Shift+Enter")
    answer.locator("p", has_text=re.compile("Exactly right|Right to the digits")).wait_for(state="visible")
    assert not answer.locator("details").count()


def press(page, control, key):
    """Press a key on a control; return whether that moved it."""
    before = control.evaluate(POSITION)
    control.scroll_into_view_if_needed()
    control.focus()
    page.keyboard.press(key)
    return control.evaluate(POSITION) != before


def label_of(control):
    return control.evaluate(
        "c => c.closest('.widget-inline-hbox, .widget-toggle-buttons').querySelector('label').innerText"
    )


def kind_of(control):
    return control.evaluate("c => c.tagName")


def move_controls(page, explorer, kinds, all_of_them):
    """Move all controls of an explorer, or one, of a kind that is not among `kinds` if there is one."""
    controls = explorer.query_selector_all(CONTROLS)
    assert controls and all(map(label_of, controls)), "a control without a label"
    if not all_of_them:
        controls = sorted(controls, key=lambda control: kind_of(control) in kinds)[:1]
    for control in controls:
        label = label_of(control)
        before = explorer.evaluate(SEEN)
        kind = kind_of(control)
        kinds.add(kind)
        chosen = control.evaluate_handle(CHOSEN).as_element() if kind == "BUTTON" else None
        assert any(press(page, control, key) for key in KEYS[kind]), f"no key moves the control {label!r}"
        wait_for(page, BOTH_NEW, explorer, before, f"the control {label!r} does not move the picture and its words")
        if chosen:  # back, since others may move nothing with the data of this button
            before = explorer.evaluate(SEEN)
            press(page, chosen, "Space")
            wait_for(page, BOTH_NEW, explorer, before, f"the control {label!r} does not move back")


def wait_for(page, condition, explorer, before, otherwise):
    """Wait until the picture is another, or an error is shown."""
    from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

    try:
        seen = page.wait_for_function(condition, arg=[explorer, *before], timeout=60_000).json_value()
    except PlaywrightTimeoutError:
        pytest.fail(f"{otherwise}; it says {explorer.inner_text()!r}")
    assert seen is True, f"an explorer shows an error: {seen}"
