"""Small data sets in the layout of the real ones, for the smallest cells of the experiments."""

from __future__ import annotations

import random
from pathlib import Path


def write_data(root: Path) -> Path:
    """Write all small data sets into a folder and return it."""
    write_imdb(root / "imdb")
    return root


def write_imdb(folder: Path) -> None:
    """Write five folds of two movies, six actors and two directors each."""
    folder.mkdir(parents=True)
    (folder / "imdb.mln").write_text(
        "actor(person)\ndirector(person)\nmovie(movie,person)\ngender(person,gender)\n"
        "genre(person,genre)\nworkedUnder(person,person)\n"
    )
    for fold in range(1, 6):
        rng = random.Random(fold)
        facts = []
        for movie in range(2):
            director = f"D{fold}{movie}"
            facts += [f"director({director})", f"movie(M{fold}{movie},{director})"]
            facts += [f"genre({director},{rng.choice(['Drama', 'Comedy'])})"]
            for number in range(3):
                actor = f"A{fold}{movie}{number}"
                facts += [f"actor({actor})", f"movie(M{fold}{movie},{actor})"]
                facts += [f"workedUnder({actor},{director})"]
                facts += [f"gender({actor},{rng.choice(['Male', 'Female'])})"]
        (folder / f"fold{fold}.db").write_text("\n".join(facts) + "\n")
