"""The contract: the TypeScript types of the page are those of the server, replies keep to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lapis.errors import LapisError
from lapis.web import schema
from lapis.web.contract import ENDPOINTS, CheckRequest, Endpoint, JobRequest
from web.workbench import MODEL, VIEW, Bench

PAGE = Path(__file__).parents[2] / "web" / "src"
CHECK = {"text": MODEL, "path": "model.mln", "data": ["people.db"]}
LIVE = {
    "text": MODEL, "path": "model.mln", "data": ["people.db"], "query": ["Smokes"],
    "evidence": [], "weights": {"0": 2.0}, "limit": 5,
}  # fmt: skip
JOB = {
    "command": "infer", "model": "model.mln", "data": ["people.db"], "options": {"query": "Smokes"}
}  # fmt: skip
BODIES: dict[str, Any] = {
    "save_workspace": {
        "model": "model.mln", "data": ["people.db"], "query": ["Smokes"], "evidence": [],
        "command": "infer", "options": {"precision": 0.01},
    },
    "check": CHECK,
    "data": {"data": ["people.db"], "model": "model.mln"},
    "columns": {"path": "table.csv"},
    "map_columns": {
        "path": "table.csv", "kind": "table", "predicate": "Likes", "columns": ["b", "a"],
        "target": "likes.db",
    },
    "rename": {"path": "typo.db", "name": "Smoks", "proposal": "Smokes"},
    "live": LIVE,
    "plan": {"model": "model.mln", "data": ["people.db"], "options": {"query": "Smokes"}},
    "start_job": JOB,
    "rows": VIEW,
    "figures": {"predicate": "Smokes", "truth": "people.db", "chains": True},
    "why": {"atom": "Smokes(Bob)"},
    "stop": {"now": False},
}  # fmt: skip


def test_the_types_of_the_page_are_generated() -> None:
    assert (PAGE / "contract.ts").read_text(encoding="utf-8") == schema.typescript()


def in_order() -> list[Endpoint]:
    """What deletes comes last."""
    return sorted(ENDPOINTS, key=lambda endpoint: endpoint.method == "DELETE")


@pytest.mark.web
def test_replies_keep_to_the_contract(bench: Bench) -> None:
    (bench.root / "table.csv").write_text("a,b\n1,x\n2,y\n")
    (bench.root / "typo.db").write_text("Smoks(Anna)\n")
    run = bench.run("infer", "model.mln", ["people.db"], query="Smokes")
    names = {"id": run["id"], "path": "table.csv", "name": "smokers"}
    for endpoint in in_order():
        path = endpoint.path.format(**names)
        body = BODIES.get(endpoint.name)
        assert (endpoint.request is None) == (body is None), endpoint.name
        reply = bench.client.request(endpoint.method, path, json=body)
        not_drawn = 404 if endpoint.name == "drawing" else 200
        assert reply.status_code == not_drawn, (endpoint.name, reply.text)
        if endpoint.reply is not None:
            schema.check_value(reply.json(), endpoint.reply, endpoint.name, 0)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"", CheckRequest, "the request is no JSON document"),
        (b"[" * 100_000, CheckRequest, "the request is no JSON document"),
        (b"[]", CheckRequest, "request must be an object"),
        (b'{"text": "", "data": []}', CheckRequest, "request needs the key 'path'"),
        (b'{"txt": ""}', CheckRequest, "request has no key 'txt'"),
        (b'{"text": 1, "path": "", "data": []}', CheckRequest, "request.text must be of type str"),
        (b'{"text": "", "path": "", "data": {}}', CheckRequest, "request.data must be a list"),
        (
            b'{"command": "rm", "model": "", "data": [], "options": {}}', JobRequest,
            "request.command must be one of infer",
        ),
        (
            b'{"command": "infer", "model": "", "data": [], "options": {"a": NaN}}', JobRequest,
            "the request is no JSON document",
        ),
        (
            b'{"command": "infer", "model": "", "data": [], "options": {"a": %s}}'
            % (b"[" * 60 + b"]" * 60), JobRequest, "too many levels",
        ),
    ],
)  # fmt: skip
def test_wrong_requests_are_described(body: bytes, kind: type, message: str) -> None:
    with pytest.raises(LapisError, match=message.replace("[", r"\[")):
        schema.read_request(body, kind)
