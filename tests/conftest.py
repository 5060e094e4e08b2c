"""How hypothesis runs in every test; long sweeps carry the marker `slow`."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=False)
settings.load_profile("default")
