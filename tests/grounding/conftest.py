"""Small worlds are planned as large ones: every choice is priced, and by its rows alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lapis.relational import compile, elimination


@pytest.fixture(autouse=True, scope="session")
def price_everything() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile, "FEW", 0)
        patch.setattr(elimination, "OVERHEAD", 0.0)
        yield
