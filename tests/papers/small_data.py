"""Small data sets in the layout of the real ones, for the smallest cells of the experiments."""

from __future__ import annotations

import gzip
import itertools
import random
from pathlib import Path


def write_data(root: Path) -> Path:
    """Write all small data sets into a folder and return it."""
    write_imdb(root / "imdb")
    write_forclift(root / "imdb" / "forclift")
    write_density(root / "density" / "kdd")
    write_citations(root / "cora-er")
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


def write_forclift(folder: Path) -> None:
    """Write the same folds with a predicate for men, and a theory of two clauses."""
    folder.mkdir()
    (folder / "formulas.mln").write_text(
        "workedUnder(person,person)\nmovie(film,person)\ndirector(person)\nmale(person)\n"
        "genre(person,type)\nactor(person)\n\n"
        "!movie(a1,a2) v !movie(a3,a2)\n!workedUnder(a1,a2) v !male(a2)\n"
    )
    for fold in range(1, 6):
        lines = (folder.parent / f"fold{fold}.db").read_text().splitlines()
        kept = [line for line in lines if ",Female" not in line]
        facts = "\n".join(kept).replace("gender", "male").replace(",Male", "")
        (folder / f"imdb_fold{fold}.db").write_text(facts + "\n")


def write_density(folder: Path) -> None:
    """Write rows of four binary variables that depend on each other."""
    folder.mkdir(parents=True)
    rng = random.Random(1)
    for part, num_rows in (("train", 200), ("valid", 40), ("test", 40)):
        lines = []
        for _ in range(num_rows):
            first = rng.random() < 0.4
            row = [first, *(rng.random() < (0.8 if first else 0.1) for _ in range(3))]
            lines.append(",".join(str(int(value)) for value in row))
        with gzip.open(folder / f"kdd.{part}.data.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def write_citations(folder: Path) -> None:
    """Write five folds of eight citations of three papers, with all pairs listed."""
    folder.mkdir(parents=True)
    for fold in range(1, 6):
        rng = random.Random(fold)
        facts, negated = [], []
        papers = {f"B{fold}{number}": number % 3 for number in range(8)}
        for bib, paper in papers.items():
            for field in ("Author", "Title", "Venue"):
                name = f"{field[0]}{bib}"
                facts.append(f"{field}({bib},{name})")
                words = [f"W{paper}", f"W{rng.randrange(3)}", f"W{3 + rng.randrange(3)}"]
                facts += [f"HasWord{field}({name},{word})" for word in words]
        for first, second in itertools.product(papers, papers):
            mark = "" if papers[first] == papers[second] else "!"
            pairs = [f"{mark}SameBib({first},{second})"] + [
                f"{mark}Same{field}({field[0]}{first},{field[0]}{second})"
                for field in ("Author", "Title", "Venue")
            ]
            (negated if mark else facts).extend(pairs)
        (folder / f"fold{fold}.db").write_text("\n".join(facts) + "\n")
        with gzip.open(folder / f"fold{fold}.neg.db.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join(negated) + "\n")
