"""Stores that tests share: opening one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lapis.stores import Store, open_store
from store_urls import EVERY_STORE, store_url


@pytest.fixture(scope="module", params=EVERY_STORE)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with open_store(store_url(request.param, request)) as opened:
        yield opened
