"""From the words of a command line to its exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rebalance.cli.completion import ASKED, candidates
from rebalance.cli.output import tell
from rebalance.cli.parser import make_parser
from rebalance.errors import RebalanceError, extras_named
from rebalance.steps import logs
from rebalance.steps.exits import DONE, INTERRUPTED, code_of


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; trouble with a plain message is one line on standard error, and the exit code says who can help."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == [ASKED]:
        sys.stdout.write("".join(f"{word}\n" for word in candidates(make_parser(), words[1:])))
        return DONE
    given = make_parser().parse_args(words)
    try:
        logs.set_up(steps=False)
        with extras_named():
            answer = given.act(given)
            tell(answer, as_json=given.json)
    except RebalanceError as error:
        logs.refuse(error)
        return code_of(error)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. What was published counts; run the command again to go on.\n")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return DONE
    return DONE if answer is None else answer.code
