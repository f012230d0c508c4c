"""The options that a list of pairs notes, checked before they are used: the file may be damaged or forged."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

from longalign.errors import InputError, StoreError
from longalign.formats.registry import format_names
from longalign.model.json_fields import Fields, shown
from longalign.model.mode import EndName, ModeName
from longalign.model.scoring import Scoring
from longalign.model.strand import STRANDS_OF
from longalign.store.layout import LIST_NAME
from longalign.store.manifest import MAX_ALIGNMENTS, Prune, StartStates
from longalign.store.pair_stores import PairList
from longalign.store.sealed_json import ADVICE

#: Reads a field of the options. It raises InputError, naming the field, for a wrong value.
_Check = Callable[[Fields, str], Any]


def checked_options(noted: PairList, folder: Path) -> dict[str, Any]:
    """The options of a list of pairs, with the scoring and `min_score` as the program uses them.

    Raises StoreError, naming the file and the option, for a value that the program does not note.
    """
    fields = Fields(noted.options, "options")
    try:
        fields.only(*_CHECKS)
        for name in ("query", "target", "output", "mode", "scoring"):
            fields.any(name)
        return {name: _CHECKS[name](fields, name) for name in noted.options}
    except InputError as error:
        raise StoreError(f"{folder / LIST_NAME}: damaged: {error}{ADVICE}") from error


def _or_none(check: _Check) -> _Check:
    return lambda fields, name: fields.or_none(name, partial(check, fields))


def _one_of(*choices: str) -> _Check:
    return lambda fields, name: fields.choice(name, choices)


def _whole(minimum: int, maximum: int) -> _Check:
    return lambda fields, name: fields.whole(name, minimum, maximum)


def _ends(fields: Fields, name: str) -> list[str]:
    ends = fields.items(name)
    for end in ends:
        if end not in get_args(EndName):
            raise InputError(f"{fields.name(name)}: no end is called {shown(end)}")
    return ends


_CHECKS: dict[str, _Check] = {
    **dict.fromkeys(("query", "target", "output"), Fields.text),
    **dict.fromkeys(("strict", "stats"), Fields.truth),  # only older lists have "stats"
    "json": _or_none(Fields.text),
    "mode": _one_of(*get_args(ModeName)),
    "free": _or_none(_ends),
    "strand": _one_of(*STRANDS_OF),
    "start_states": _one_of(*get_args(StartStates)),
    "prune": _one_of(*get_args(Prune)),
    "store_budget": _or_none(_whole(0, sys.maxsize)),
    "top": _whole(1, MAX_ALIGNMENTS),
    "min_score": _or_none(Fields.number),
    "format": _or_none(_one_of(*format_names())),
    "scoring": lambda fields, name: Scoring.from_json(fields.any(name)),
}
