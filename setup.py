"""The rest is in pyproject.toml. Here a wheel gets the data, and the notebook that `packlib run` runs from it."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = (
    "data/README.md", "data/lengths/*.csv", "data/benchmarks/*.csv", "data/runs/*.csv", "data/wordnet/LICENSE",
    "data/wordnet/glosses.parquet", "data/wordnet/tokenizer/*", "notebooks/12_your_dataset.ipynb",
)  # fmt: skip


class BuildWithData(build_py):
    def run(self) -> None:
        super().run()
        for pattern in () if self.editable_mode else SHIPPED:
            found = list(Path().glob(pattern))
            if not found:
                raise FileNotFoundError(f"There is no {pattern} here: build packlib from its repository.")
            for path in found:
                target = Path(self.build_lib, "packlib", "shipped", path)
                self.mkpath(str(target.parent))
                self.copy_file(str(path), str(target))


setup(cmdclass={"build_py": BuildWithData})
