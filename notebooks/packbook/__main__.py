"""`python -m packbook` is the command line of the notebooks."""

import sys

from packlib_command import packbook

if __name__ == "__main__":
    sys.exit(packbook())
