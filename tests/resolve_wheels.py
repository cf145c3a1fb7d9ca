"""Is there a wheel of every pinned package for each Python and platform? `python -m tests.resolve_wheels`

pip is asked to find all of constraints.txt for another machine than this one; nothing is installed, and what a package
needs is not followed, since pip reads the conditions of this machine for that. It needs the index of packages, so it is
no test.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

PINS = (Path(__file__).resolve().parents[1] / "constraints.txt").read_text(encoding="utf-8").split()
SOURCE_ALONE = "lightbinpack"  # no Python has a wheel of it; `make bench` compiles it, and nothing else needs it
PYTHONS = ("3.11.9", "3.12", "3.13", "3.14")
PLATFORMS = {
    "Linux, x86-64": [*(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)), "manylinux2014_x86_64"],
    "Linux, ARM": [*(f"manylinux_2_{minor}_aarch64" for minor in range(28, 16, -1)), "manylinux2014_aarch64"],
    "macOS 14, ARM": [f"macosx_{major}_0_{kind}" for major in (14, 13, 12, 11) for kind in ("arm64", "universal2")],
}


def without_wheel(python: str, platforms: list[str]) -> str:
    """What pip says of the first pin that has no wheel for this Python and any of these tags of platforms, or ""."""
    pins = [pin for pin in PINS if not pin.startswith(SOURCE_ALONE)]
    with tempfile.TemporaryDirectory() as target:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", python, "--target", target, *(f"--platform={name}" for name in platforms)]
        done = subprocess.run([*command, *pins], capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


if __name__ == "__main__":
    lacking = False
    for name, platforms in PLATFORMS.items():
        for python in PYTHONS:
            said = without_wheel(python, platforms)
            lacking |= bool(said)
            print(f"{name}, Python {python}: {said or 'all there'}", flush=True)
    sys.exit(lacking)
