"""Back ends: one sweep and one trace, on different hardware."""
