"""Entity resolution of customer records.

The records and the candidate pairs are pandas frames. Most pairs of records are never compared: a
blocking step proposes candidates, and `only_listed=True` asks these alone. Weights are learned
from pairs that a person has checked; new pairs are then scored together, so that two matches of
one record support a third (transitivity).

    python examples/entity_resolution.py
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

import lapis

MODEL = lapis.parse("""
SameEmail(rec, rec)
SameName(rec, rec)
SameCity(rec, rec)
Dup(rec, rec)

Dup(x, y)                                 // how rare duplicates are
SameEmail(x, y) => Dup(x, y)
SameName(x, y) => Dup(x, y)
SameCity(x, y) => Dup(x, y)
Dup(x, y) ^ Dup(y, z) => Dup(x, z)
""")


def make_records(num_people: int, seed: int) -> pd.DataFrame:
    """Return records of people, some entered twice or three times with errors."""
    rng = np.random.default_rng(seed)
    first = ["anna", "ben", "cora", "dan", "eva", "finn", "gus", "hana"]
    last = ["berg", "cole", "diaz", "evans", "frank", "gray", "hill", "ito", "jung", "kay"]
    rows = []
    for person in range(num_people):
        name, city = f"{rng.choice(first)} {rng.choice(last)}", f"city{rng.integers(6)}"
        for _ in range(rng.integers(1, 4)):
            rows.append(
                {
                    "person": person,
                    "name": name if rng.random() < 0.8 else f"{name[0]}. {name.split()[1]}",
                    "email": f"p{person}@mail" if rng.random() < 0.6 else None,
                    "city": city if rng.random() < 0.9 else f"city{rng.integers(6)}",
                }
            )
    frame = pd.DataFrame(rows)
    frame["id"] = [f"R{seed}_{i}" for i in range(len(frame))]
    return frame


def propose_pairs(records: pd.DataFrame) -> pd.DataFrame:
    """Return candidate pairs: records whose surnames agree."""
    surname = records["name"].str.split().str[1]
    pairs = [
        pair
        for _, group in records.groupby(surname)
        for pair in itertools.combinations(group.index, 2)
    ]
    left, right = (records.loc[[pair[i] for pair in pairs]].reset_index(drop=True) for i in (0, 1))
    return left.add_prefix("l_").join(right.add_prefix("r_"))


def describe_pairs(pairs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the evidence: the candidate pairs that agree on a field."""
    agree = {
        "SameEmail": pairs["l_email"].notna() & (pairs["l_email"] == pairs["r_email"]),
        "SameName": pairs["l_name"] == pairs["r_name"],
        "SameCity": pairs["l_city"] == pairs["r_city"],
    }
    return {name: pairs.loc[rows, ["l_id", "r_id"]] for name, rows in agree.items()}


def main() -> None:
    checked = propose_pairs(make_records(40, seed=1))
    is_same = checked["l_person"] == checked["r_person"]
    training = lapis.Database.from_frames(
        {
            **describe_pairs(checked),
            "Dup": checked.loc[is_same, ["l_id", "r_id"]],
            "Dup.false": checked.loc[~is_same, ["l_id", "r_id"]],
        }
    )
    print(f"learning from {len(checked)} checked pairs, {is_same.sum()} of them duplicates")
    fit = lapis.learn(MODEL, training, query="Dup", only_listed=True)
    print(fit)

    new = propose_pairs(make_records(20, seed=2))
    data = lapis.Database.from_frames({**describe_pairs(new), "Dup.unknown": new[["l_id", "r_id"]]})
    answer = lapis.infer(fit.model, data, query="Dup", only_listed=True)
    new["probability"] = [
        answer[f"Dup({a},{b})"] for a, b in zip(new["l_id"], new["r_id"], strict=True)
    ]
    print(f"\n{len(new)} new pairs, {answer.summary()}\nthe most likely duplicates:")
    best = new.sort_values("probability", ascending=False).head(8)
    print(best[["l_id", "r_id", "l_name", "r_name", "probability"]].to_string(index=False))

    found, truth = new["probability"] > 0.5, new["l_person"] == new["r_person"]
    precision, recall = (found & truth).sum() / found.sum(), (found & truth).sum() / truth.sum()
    print(f"\nat probability 0.5: precision {precision:.2f}, recall {recall:.2f}")


if __name__ == "__main__":
    main()
