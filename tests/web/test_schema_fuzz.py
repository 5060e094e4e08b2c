"""Requests that schemathesis makes from the OpenAPI description: no reply is a failure of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from lapis.web.schema import openapi
from web.workbench import DATA, MODEL, Bench, serving

pytestmark = pytest.mark.web
schema = schemathesis.openapi.from_dict(openapi())


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    root = tmp_path_factory.mktemp("fuzzed")
    (root / "model.mln").write_text(MODEL)
    (root / "people.db").write_text(DATA)
    with serving(root, max_seconds=5) as found:
        yield found


@schema.parametrize()
@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_no_request_fails(fuzzed: Bench, case: Any) -> None:
    headers = {"authorization": f"Bearer {fuzzed.settings.token}"}
    reply = case.call(base_url=fuzzed.url, headers=headers, timeout=60)
    assert reply.status_code < 500, (case.method, case.path, case.body, reply.text)
