"""`python -m packlib` is the command line, as `torchrun -m packlib` needs it."""

import sys

from packlib.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
