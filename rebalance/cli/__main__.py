"""`python -m rebalance.cli` is `rebalance`."""

import sys

from rebalance.cli import main

if __name__ == "__main__":
    sys.exit(main())
