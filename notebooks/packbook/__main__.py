"""`python -m packbook` is the command line of the notebooks."""

import sys

from packbook.cli import main

if __name__ == "__main__":
    sys.exit(main())
