"""Compare what every command writes, between versions and engines."""
