"""spark-submit jobs/migrate_state.py --pipeline FILE --interval START"""

import sys

from rebalance.steps.command import main

if __name__ == "__main__":
    sys.exit(main("migrate_state"))
