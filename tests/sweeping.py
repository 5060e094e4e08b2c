"""Answers held to the oracle, whatever method gave them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lapis
import oracle
from oracle import NoWorld
from strategies import Case


def close(value: object) -> object:
    return pytest.approx(value, abs=1e-9, rel=1e-13)


def parse_case(case: Case) -> lapis.Model:
    """The model of a case, in which missing numbers are left out."""
    return replace(lapis.parse(case.model), missing="skip")


def check_exact(case: Case, method: str) -> None:
    """With partial evidence, blocks, functions, numbers and plus variables."""
    model, data = parse_case(case), lapis.Database.parse(case.data)
    try:
        expected = oracle.infer(model, case.facts, case.query)
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            lapis.infer(model, data, query=case.query, method=method)
        return
    answer = lapis.infer(model, data, query=case.query, method=method)
    assert answer.exact
    assert answer.log_partition == close(expected.log_partition)
    for atom, probability in answer.marginals.items():
        assert probability == close(expected.marginals[atom]), atom
    keys = oracle.weight_keys(model, oracle.constants_of(model, case.facts))
    assert answer.expected_counts.tolist() == close([expected.expected_counts[k] for k in keys])
