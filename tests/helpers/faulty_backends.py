"""Faults that back ends of more than one suite have, to be mixed in before what reads jobs by `misread`."""

from __future__ import annotations

import dataclasses

import numpy as np


class MatchesAmbiguousLetters:
    def misread(self, job):
        query, target = (np.where(codes > 3, 0, codes) for codes in (job.query, job.target))
        return dataclasses.replace(job, query=query, target=target)
