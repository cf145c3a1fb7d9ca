"""`python -m packlib` is the command line, as `torchrun -m packlib` needs it."""

import sys

from packlib.cli import main

sys.exit(main())
