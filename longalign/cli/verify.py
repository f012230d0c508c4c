"""`longalign verify`: re-score a PAF file against its sequences."""

from __future__ import annotations

