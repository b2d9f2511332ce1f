"""Completion for bash, zsh and fish, from the parser itself: the shell hands over the words so far, and gets what may come next."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

#: What a shell puts before the words it asks about; the last of them is the one that is being written.
ASKED = "__complete"

SHELLS = {
    "bash": """\
_rebalance() {
    local IFS=$'\\n'
    COMPREPLY=($(rebalance __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _rebalance rebalance
""",
    "zsh": """\
#compdef rebalance
_rebalance() {
    local -a found
    found=("${(@f)$(rebalance __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=(${found:#})
    if (( ${#found} )); then compadd -a found; else _files; fi
}
compdef _rebalance rebalance
""",
    "fish": """\
function __rebalance_complete
    set -l words (commandline -opc) (commandline -ct)
    rebalance __complete $words[2..-1] 2>/dev/null
end
complete -c rebalance -a '(__rebalance_complete)'
""",
}


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """What the last word, which is being written, can become."""
    *before, current = words or [""]
    waiting: argparse.Action | None = None
    places = _places(parser)
    for word in before:
        if waiting is not None:
            waiting = None
        elif word.startswith("-"):
            action = parser._option_string_actions.get(word)
            waiting = action if action is not None and action.nargs != 0 else None
        elif places:
            place = places.pop(0)
            if isinstance(place, argparse._SubParsersAction):
                if word not in place.choices:
                    return []
                parser = place.choices[word]
                places = _places(parser)
    if waiting is None and current.startswith("-"):
        found: Iterable[str] = (option for option in parser._option_string_actions if option.startswith("--"))
    else:
        at = waiting if waiting is not None else next(iter(places), None)
        found = _values(at) if at is not None else ()
    return [word for word in found if word.startswith(current)]


def _places(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]


def _values(action: argparse.Action) -> Iterable[str]:
    """What can stand for an argument; nothing where only the person knows, or a file is meant."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    if action.dest == "pipeline":
        from rebalance.pipeline.folder import pipeline_names

        return pipeline_names()
    if action.dest == "planner":
        from rebalance.planners.registry import PLANNERS

        return PLANNERS
    return ()
