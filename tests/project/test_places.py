"""Output places: refused before any work where nothing can or should be written, and used by one run at a time."""

import os
import socket
import threading
from pathlib import Path

import pytest
from datasets import Dataset

import packbook.cli
from packbook import results
from packbook.publish import gallery, slides, talk
from packbook.publish.website import building
from packbook.run import running
from packlib import files
from packlib.files import atomic_path, output_path, work_folder
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.tools import cli
from packlib.training import Recipe

pytest_plugins = ("workbook_cases",)


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """A folder with everything that is no place to write to."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("folder").mkdir()
    Path("file").write_text("old")
    for name, target in {"to-pipe": "pipe", "to-folder": "folder", "to-file": "file", "to-nowhere": "gone/x",
                         "to-full": "/dev/full", "loop": "loop"}.items():  # fmt: skip
        Path(name).symlink_to(target)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        yield tmp_path


def state(folder):
    return {path: (path.lstat().st_mode, path.lstat().st_ino) for path in folder.rglob("*")}


FILES = {
    "/dev/full": "'/dev/full' is a pipe, a socket or a device; name a file.",
    "pipe": "'pipe' is a pipe, a socket or a device; name a file.",
    "socket": "'socket' is a pipe, a socket or a device; name a file.",
    "folder": "'folder' is a folder; name a file.",
    "to-pipe": "'to-pipe' is a pipe, a socket or a device; name a file.",
    "to-nowhere": "'to-nowhere' cannot be written: the link {}/to-nowhere leads nowhere.",
    "loop": "'loop' cannot be written: the link {}/loop leads nowhere.",
    "file/plan.json": "'file/plan.json' cannot be written: {}/file is a file and no folder.",
}


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_refused_before_any_work(strange, monkeypatch, capsys, path):
    monkeypatch.setattr(cli, "load_argument", lambda *_: pytest.fail("must not work"))
    before = state(strange)
    assert cli.main(["plan", "squad", "--out", path]) == 2
    says = FILES[path].format(strange)
    assert capsys.readouterr().err == f"packlib: {says}\n"
    with pytest.raises(OSError) as raised, atomic_path(path):
        pytest.fail("must not begin")
    assert str(raised.value) == says and state(strange) == before
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("command", ["run", "report"])
def test_a_folder_is_refused_before_any_work(strange, idle, monkeypatch, capsys, command):
    monkeypatch.chdir(strange)
    (strange / "lengths.txt").write_text("3\n")
    before = state(strange)
    for path in set(FILES) - {"folder"} | {"file", "to-file"}:
        arguments = ["lengths.txt"] if command == "report" else ["1"]
        program = cli if command == "report" else packbook.cli
        assert program.main([command, *arguments, "--out", path]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"{program.program.name}: '{path}' ") and said.count("\n") == 1
        assert "cannot be written: " in said or said.endswith("; name a folder.\n")
    assert state(strange) == before


def check_places_without_permission(folder):
    closed = Path(folder) / "closed"
    closed.mkdir()
    (closed / "read-only").write_text("old")
    (closed / "read-only").chmod(0o444)
    for mode, path in ((0o755, closed / "read-only"), (0o555, closed / "new"), (0o555, closed / "new" / "newer")):
        closed.chmod(mode)
        for is_folder in {False, path.name != "read-only"}:
            with pytest.raises(PermissionError, match="there is no permission to change"):
                output_path(path, is_folder)


def test_places_without_permission(tmp_path):
    if os.geteuid() != 0:
        return check_places_without_permission(tmp_path)
    child = os.fork()
    if child == 0:  # root may write everywhere, so it becomes another user
        code = 1
        try:
            os.chown(tmp_path, 65534, 65534)
            os.chdir(tmp_path)  # the folders above are closed to others
            os.setuid(65534)
            check_places_without_permission(".")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_a_link_to_a_file_stays_a_link(strange):
    with atomic_path("to-file") as beside:
        beside.write_text("new")
    assert Path("to-file").is_symlink() and Path("file").read_text() == "new"
    with atomic_path("to-folder/new") as beside:
        beside.write_text("new")
    assert Path("folder/new").read_text() == "new"


@pytest.mark.parametrize("path", ["/proc/nowhere/plan.json", "x" * 5000])
def test_what_the_system_refuses_is_one_short_sentence(path):
    with pytest.raises(OSError, match=r"^'.* cannot be written: [A-Z].*\.$") as raised, atomic_path(path):
        pytest.fail("must not begin")
    assert len(str(raised.value)) < 400


def test_a_folder_has_one_run_at_a_time(tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    with work_folder(out) as work:
        (work / "x").touch()
        (out / "kept").touch()
        with pytest.raises(BlockingIOError, match=f"^Another run is writing to {out}: wait until it ends"):
            with files.delivery(out):
                pytest.fail("must not begin")
        assert (work / "x").exists()
    assert [path.name for path in out.iterdir()] == ["kept"]
    with pytest.raises(KeyboardInterrupt), work_folder(tmp_path / "new" / "er"):
        raise KeyboardInterrupt
    assert not (tmp_path / "new" / "er").exists() and out.exists()
    (tmp_path / "empty").mkdir()
    with work_folder(tmp_path / "empty"):
        pass
    assert (tmp_path / "empty").exists(), "what was there before stays"


def test_runs_that_begin_together_take_turns(tmp_path):
    """Each finds its folder empty, although the others remove theirs at the same time."""
    inside, most, left = [], [], []

    def use():
        for _ in range(30):
            with work_folder(tmp_path / "out") as work:
                inside.append(1)
                most.append(len(inside))
                left.extend(work.iterdir())
                (work / "x").touch()
                inside.pop()

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 90 and max(most) == 1 and not left and not list(tmp_path.glob("out/*"))


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    with atomic_path(tmp_path / "file") as first, atomic_path(tmp_path / "file") as second:
        second.write_text("second")
        first.write_text("first")
    assert (tmp_path / "file").read_text() == "first" and len(list(tmp_path.iterdir())) == 1


def test_what_is_delivered_replaces_all_or_nothing(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_text("old")

    with (
        pytest.raises(FileExistsError, match=r"b' is a folder; name a file"),
        files.delivery(tmp_path, replace=True) as (work, delivered),
    ):
        for name in "ab":
            (work / name).write_text("new")
    assert not delivered
    assert (tmp_path / "a").read_text() == "old" and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["../x.json", "/x.json", "..", ""])
def test_what_a_notebook_keeps_is_in_its_folder(tmp_path, monkeypatch, name):
    monkeypatch.setenv(results.RESULTS_FOLDER, str(tmp_path))
    with pytest.raises(ValueError, match="name must be a file name without folders, not '"):
        results.keep(name, "text")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def inputs(idle):
    """What the commands read, each under its own name, by a link and by a hard link; and what all of it holds."""
    Dataset.from_dict({"input_ids": [[5, 6, 7], [8, 9]]}).to_parquet("tokens.parquet")
    Path("mine.csv").write_text("3\n2\n")
    plan(LengthHistogram.from_lengths([3, 2], 8)).save("plan.json")
    Recipe(8, 1e-3, 100).save("recipe.json")
    for path in list(Path().iterdir()):
        Path("link-" + path.name).symlink_to(path)
        os.link(path, "hard-" + path.name)
    os.symlink(".", "here")
    return {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}


NAMES = ["{}", "here/{}", "link-{}", "hard-{}"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command, read", [
    ("pack tokens.parquet --plan plan.json --out", "plan.json"),
    ("plan mine.csv --max-length 8 --out", "mine.csv"),
])  # fmt: skip
def test_a_command_does_not_replace_the_file_that_it_reads(inputs, capsys, command, read, name):
    before = state(Path())
    assert cli.main([*command.split(), out := name.format(read)]) == 2
    said = capsys.readouterr().err
    assert said == f"packlib: {out!r} would replace {read!r}, which is read: name another file.\n"
    assert {path: path.read_bytes() for path in inputs} == inputs and state(Path()) == before


def test_nor_does_a_folder_of_results(inputs, monkeypatch, capsys):
    """What will be there for certain is refused before any work, and each file again before it is moved there."""
    monkeypatch.setattr("packlib.tools.advice.advising.read_uncut", lambda *_: pytest.fail("must not read"))
    Path("out").mkdir()
    for read, result in (("mine.csv", "summary.csv"), ("recipe.json", "advice.json"), ("mine.csv", "plan.json")):
        os.symlink(Path(read).absolute(), Path("out") / result)
    reports = "report mine.csv --replace --recipe recipe.json", "report mine.csv --replace"
    for command in (*reports, "sweep 1 -p dataset mine.csv"):
        program = packbook.cli if command.startswith("sweep") else cli
        assert program.main([*command.split(), "--out", "out"]) == 2
        said = capsys.readouterr().err
        assert "would replace" in said and said.count("\n") == 1
    with pytest.raises(FileExistsError, match="would replace"), files.delivery(Path("out"), ["mine.csv"]) as made:
        (made[0] / "first").write_text("new")
        (made[0] / "summary.csv").write_text("new")
    assert {path: path.read_bytes() for path in inputs} == inputs and len(list(Path("out").iterdir())) == 3


@pytest.mark.parametrize(
    ("program", "command", "there"),
    [
        (cli, "plan mine.csv --max-length 8 --out out/plan.json", "plan.json"),
        (cli, "report mine.csv --max-length 8 --out out", "report.html"),
        (cli, "report mine.csv --max-length 8 --out out", "plan.json"),
        (packbook.cli, "run 2 -p quick true --out out", "02_long_way.ipynb"),
        (packbook.cli, "run 2 -p quick true --out out", "figures/line.png"),
    ],
)
def test_what_is_there_is_replaced_only_if_that_is_asked_for(small, capsys, program, command, there):
    (small / "mine.csv").write_text("3\n2\n")
    old = small / "out" / there
    old.parent.mkdir(parents=True)
    old.write_text("mine")
    assert program.main(command.split()) == 2
    said = capsys.readouterr()
    assert f"{there}' exists: choose another --out, or add --replace.\n" in said.err and not said.out
    assert old.read_text() == "mine" and [path for path in (small / "out").rglob("*") if path.is_file()] == [old]
    assert program.main([*command.split(), "--replace"]) == 0
    assert old.read_bytes() != b"mine"


def test_nor_does_the_folder_of_the_notebooks(idle, capsys):
    (source,) = [path for name, path in running.notebooks().items() if name.startswith("01")]
    before = source.read_bytes()
    assert packbook.cli.main(["run", "1", "--out", str(source.parent)]) == 2
    assert "which is read: name another file." in capsys.readouterr().err and source.read_bytes() == before


def test_nor_do_the_pages_that_are_made_of_notebooks(small):
    """A deck, a talk, the pictures' page and the site, where a notebook has the name of what would be written."""
    first, second = running.notebooks().values()
    page, folder = first.rename(first.with_suffix(".html")), first.parent
    os.link(page, folder / "index.html")
    (folder / "talk.html").symlink_to(second)
    (folder / "objects.inv").touch()  # as in the folder of a site
    before = state(folder)
    for call in (
        lambda: slides.main([str(folder), "figures", str(page)]),
        lambda: talk.main([str(folder / "talk.html"), "figures"]),
        lambda: gallery.main(folder, [page]),
        lambda: building.build(folder, [second]),
    ):
        with pytest.raises(FileExistsError, match=r"would replace .*, which is read: name another f"):
            call()
    assert state(folder) == before
