"""What `pip install .` leaves works in an empty folder, also without the extras; what is missing is one sentence."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import nbformat
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packbook.publish.website import building

ROOT = Path(__file__).parents[2]
TRAIN = ("torch", "transformers", "accelerate")
LAB = ("IPython", "ipywidgets", "jupyterlab", "latex2mathml", "matplotlib", "nbclient", "nbconvert", "nbformat",
       "papermill", "PIL")  # fmt: skip


@pytest.fixture
def python(wheel, tmp_path):
    """Run Python in an empty folder with the wheel, as if the packages `without` were not installed."""

    def run(*arguments, without=()):
        lacking, empty = tmp_path / "lacking", tmp_path / "empty"
        for folder in (lacking, empty):
            folder.mkdir(exist_ok=True)
        for name in without:
            (lacking / f"{name}.py").write_text(f"raise ModuleNotFoundError('No {name}', name={name!r})")
        offline = os.environ["PYTHONPATH"].split(os.pathsep)[0]
        path = os.pathsep.join(map(str, (lacking, wheel, offline)))
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run([sys.executable, *arguments], cwd=empty, env=environment, capture_output=True, text=True)

    return run


def packlib(python, command, **options):
    return python("-m", "packlib.tools.cli", *command.split(), **options)


@pytest.mark.slow
def test_planning_and_listing_need_no_extra(python):
    for command, says in {
        "--version": "packlib 0.",
        "list": "data sets: wordnet",
        "plan wikipedia --max-length 128 --overlong drop --max-sequences-per-pack 3": "PackingPlan(",
        "plan wordnet --method nnlshp --max-sequences-per-pack 2 --json": '"method": "nnlshp"',
    }.items():
        done = packlib(python, command, without=(*TRAIN, *LAB))
        assert (done.returncode, done.stderr) == (0, "") and says in done.stdout, command
    assert python("-c", "from packlib.installed import ROOT; print(ROOT.name)").stdout == "packlib\n"
    notice = python("-c", "from packlib.lengths import data_path; print(data_path('README.md').read_text())").stdout
    assert "Copyright (c) 2019 Graphcore Ltd." in notice, "it goes with the counts"


@pytest.mark.slow
def test_data_comes_without_the_programs_that_recorded_it(wheel):
    """Those are in the source distribution."""
    programs = {path.relative_to(ROOT) for path in (ROOT / "data").rglob("*.py")}
    files = {path.relative_to(ROOT) for path in (ROOT / "data").glob("*/*.csv")}
    brought = {path.relative_to(wheel / "packlib") for path in (wheel / "packlib" / "data").rglob("*")}
    assert files <= brought and not [path for path in brought if path.suffix in (".py", ".pyc")]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", wheel.parent]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (source,) = wheel.parent.glob("packlib-*.tar.gz")
    with tarfile.open(source) as archive:
        shipped = {Path(*Path(name).parts[1:]) for name in archive.getnames()}
    assert programs | files <= shipped


@pytest.mark.slow
def test_what_an_extra_brings_is_named_by_every_command(python):
    for name in ("run", "sweep"):  # the notebooks are in the repository alone
        done = python("-m", "packbook", name, "12", without=(*TRAIN, *LAB))
        said = "notebooks/12.ipynb is not installed: clone packlib's repository, and there run pip install -e ."
        assert (done.returncode, done.stderr) == (2, f"packbook: {said}\n")
    done = python("-m", "packbook", "list", without=(*TRAIN, *LAB))
    said = "notebooks is not installed: clone packlib's repository, and there run pip install -e ."
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"packbook: {said}\n")
    for code in ("import packlib; packlib.pack_loader", "from packlib.model import PackedBert"):
        *_, said = python("-c", code, without=TRAIN).stderr.splitlines()
        assert "packlib." in said and "needs torch, which is not installed: pip install 'packlib[train]'" in said


@pytest.mark.slow
def test_reporting_packing_and_auditing_need_neither_the_checkout_nor_an_extra(python, tmp_path):
    (tmp_path / "mine.txt").write_text("\n".join(["3", "9", "12", "48"] * 50))
    pq.write_table(
        pa.table({"input_ids": [[1, 2, 3], [4, 5], [6]], "kept": ["a", "b", "c"]}), tmp_path / "rows.parquet"
    )
    pq.write_table(pa.table({"seq_lengths": [[3, 1], [4], [2]]}), tmp_path / "packed.parquet")

    def run(command):
        done = packlib(python, command, without=(*TRAIN, *LAB, "datasets"))
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(f"report {tmp_path / 'mine.txt'} --max-sequences-per-pack 3 --out out")
    advice = json.loads((tmp_path / "empty" / "out" / "advice.json").read_text())
    assert advice["plan"]["depth"] <= 3 and (tmp_path / "empty" / "out" / "report.html").exists()
    said = run(f"pack {tmp_path / 'rows.parquet'} --max-length 4 --json --out packed.parquet")
    kept = pq.read_table(tmp_path / "empty" / "packed.parquet")["kept"].to_pylist()
    assert json.loads(said)["num_packs"] == 2 and sorted(kept) == [["a", "c"], ["b"]]
    assert json.loads(run(f"audit {tmp_path / 'packed.parquet'} --max-length 4 --json"))["packs"] == 3
    done = python("-c", "import packlib; packlib.pack_dataset([], 4)", without=("datasets",))
    assert "packlib.pack_dataset needs datasets, which is not installed: pip install 'packlib[hub]'" in done.stderr


BLACK_BOX = """
import sys
sys.path.append({tests!r})
import check_cases as cases


def make():
    return cases.Tiny("attention"), cases.dense(segments=True, mask=None), cases.sequences()
"""
DATA_THEN_CHECK = """
import sys
from packlib.tools.cli import main
from packbook.records import recorded
from packlib.batches import wordnet_tokenizer
from packlib.model import forms
print(len(wordnet_tokenizer()), len(recorded("baselines", "runs").rows) > 0, len(forms.table()) > 100)
sys.exit(main(["check", *sys.argv[1:]]))
"""


@pytest.mark.slow
def test_data_and_checking_work_where_only_the_wheel_is(python, tmp_path):
    (tmp_path / "mine.py").write_text(BLACK_BOX.format(tests=str(ROOT / "tests")))
    done = python("-c", DATA_THEN_CHECK, f"{tmp_path / 'mine.py'}:make", "--json", without=LAB)
    data, _, checked = done.stdout.partition("\n")
    assert done.returncode == 0 and json.loads(checked)["exact"] is True, done.stdout + done.stderr
    assert data == "4000 True True"


@pytest.mark.slow
def test_a_hosted_copy_runs_where_its_first_cell_installed_the_wheel(wheel, tmp_path):
    environment, bare = tmp_path / "environment", tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    (folder,) = environment.glob("lib/python*/site-packages")
    (folder / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # what is there, packlib left out
    copy = building.hosted(
        nbformat.read(ROOT / "notebooks" / "13_balanced_work.ipynb", 4), "someone/packing", "13_balanced_work"
    )
    (file,) = wheel.parent.glob("packlib-*.whl")
    address = "packlib[notebook] @ git+https://github.com/someone/packing"
    assert address in copy.cells[0].source
    copy.cells[0].source = copy.cells[0].source.replace(f'"{address}"', f"--no-deps --no-index {file}")
    copy.cells[1:1] = [nbformat.v4.new_code_cell("import packlib; print(packlib.__file__)")]
    bare.mkdir()
    nbformat.write(copy, bare / "hosted.ipynb")
    run = [python, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", "hosted.ipynb"]
    done = subprocess.run(
        run, cwd=bare, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ran = nbformat.read(bare / "hosted.ipynb", 4)
    assert ran.cells[1].outputs[0].text.startswith(str(environment))
    assert ran.cells[-1].source == copy.cells[-1].source and all(
        c.get("execution_count") for c in ran.cells if "outputs" in c
    )
