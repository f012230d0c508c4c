"""What is said of a sequence that cannot be read."""

from __future__ import annotations

import pytest

from longalign.errors import InputError
from longalign.fasta import read_sequence


def error(spec: object) -> str:
    """The message of reading `spec`, which must fail in one line."""
    with pytest.raises(InputError) as caught:
        read_sequence(str(spec))
    message = str(caught.value)
    assert "\n" not in message
    return message
