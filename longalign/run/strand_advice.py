"""Advice to try the other strand: where few letters match, but the reverse complement shares many k-mers.

Only a sample of the k-mers is compared. That takes some nanoseconds a letter.
"""

from __future__ import annotations

from dataclasses import replace

from longalign.events import Notice
from longalign.model.alphabet import DNA
from longalign.model.sequence import Sequence
from longalign.pruning.unique_words import shared_words
from longalign.run.outcome import Recorder
from longalign.run.spec import RunSpec

#: Nucleotides, and any other letter read as N: whatever the scoring of the run lets in.
_ANY_LETTERS = replace(DNA, substitute="N")

_K = 20

#: A score below this share of the best possible one is poor.
_POOR = 0.1

#: The fewest shared k-mers that are worth a word, and how many times as many as on the given strand.
_MANY, _TIMES = 10, 4


def advise(spec: RunSpec, score: int, recorder: Recorder) -> bool:
    """Emit the advice as a Notice, if there is any and someone reads it. Returns whether that is so."""
    advice = strand_advice(spec, score) if recorder.is_watched else None
    if advice is not None:
        recorder(Notice(advice))
    return advice is not None


def strand_advice(spec: RunSpec, score: int) -> str | None:
    """One line for the user if a local run on the plus strand, with this scaled score, seems to be on the
    wrong one.

    None otherwise, and for sequences without a minus strand.
    """
    is_local = spec.mode.starts_anywhere and spec.mode.ends_anywhere
    if spec.strand != "plus" or not is_local or spec.scoring.alphabet.complement is None:
        return None
    scoring, shorter = spec.scoring, min(spec.query.length, spec.target.length)
    if shorter < _K or score >= _POOR * scoring.highest * shorter:
        return None
    query = Sequence.from_letters("query", spec.query.letters, alphabet=_ANY_LETTERS)
    codes = Sequence.from_letters("target", spec.target.letters, alphabet=_ANY_LETTERS).as_target()
    minus = shared_words(query.on("minus").as_query(), codes, _K)
    if minus < _MANY or minus < _TIMES * shared_words(query.as_query(), codes, _K):
        return None
    return (
        f"{spec.query.name} and {spec.target.name}: few matches on this strand, but many exact {_K}-mers of "
        "the query's reverse complement occur in the target: try --strand both"
    )
