"""spark-submit jobs/check_quality.py --pipeline FILE --interval START"""

import sys

from rebalance.steps.command import main

if __name__ == "__main__":
    sys.exit(main("check_quality"))
