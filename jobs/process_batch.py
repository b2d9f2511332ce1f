"""spark-submit jobs/process_batch.py --pipeline FILE --interval START"""

import sys

from rebalance.steps.command import main

if __name__ == "__main__":
    sys.exit(main("process_batch"))
