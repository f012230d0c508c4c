"""The conformance suite on the back ends that need no device."""

from __future__ import annotations

import pytest

from longalign.reference import ReferenceBackend
from longalign.testing import SweepConformance


class TestReference(SweepConformance):
    """Says little about the oracle's cells, but much about tiles, boundaries and the suite itself."""

    interesting_lengths = (4, 16)

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> ReferenceBackend:
        return ReferenceBackend()
