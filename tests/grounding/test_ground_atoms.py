"""Test the numbering of unknown atoms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.grounding import ground_atoms
from lapis.grounding.ground_atoms import list_others


@given(st.integers(1, 40), st.lists(st.integers(0, 39)), st.integers(1, 50))
def test_others_are_listed_in_pieces_of_any_size(total: int, codes: list[int], piece: int) -> None:
    known = [code for code in codes if code < total]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ground_atoms, "PIECE", piece)
        found = list_others(total, np.array(known, np.int64))
    assert found.tolist() == [code for code in range(total) if code not in known]
