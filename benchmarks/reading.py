"""Time and memory of reading a million facts in each format, and of reading large models.

The facts are over 200,000 constants. Each file is read in a fresh process. The time is that of
`Database.read`, first use included; the memory is the peak of the process. The targets are 4 s and
600 MB for `.db`, 1 s for Parquet, and 20,000 formulas per second of CPU time. The models are
Bayesian networks of `LAPIS_DATA` as rules, one formula for each table entry, and random clauses
over 2,000 propositions.

    python benchmarks/reading.py [--facts N] [--constants N]
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from protocol import DATA, has_data

READ = """
import json, resource, sys, time
import lapis.data

start, start_cpu = time.perf_counter(), time.process_time()
data = lapis.data.Database.read(sys.argv[1])
seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
facts = sum(len(relation.true) for relation in data.relations.values())
print(json.dumps({"seconds": seconds, "cpu": cpu, "megabytes": peak, "facts": facts}))
"""


def generate(folder: Path, num_facts: int, num_constants: int) -> dict[str, Path]:
    """Write the same friendships in every format."""
    import duckdb

    pairs = np.random.default_rng(0).integers(0, num_constants, (num_facts, 2))
    pairs = np.unique(pairs, axis=0)
    np.random.default_rng(1).shuffle(pairs)
    text = "".join(f"Friends(P{a},P{b})\n" for a, b in pairs.tolist())
    quoted = "".join(f'Friends("person {a}","person {b}")\n' for a, b in pairs.tolist())
    paths = {
        ".db": folder / "facts.db",
        ".db.gz": folder / "facts.db.gz",
        ".db, quoted": folder / "quoted.db",
        "Parquet folder": folder / "parquet",
        "CSV folder": folder / "csv",
    }
    paths[".db"].write_text(text)
    paths[".db.gz"].write_bytes(gzip.compress(text.encode(), 6))
    paths[".db, quoted"].write_text(quoted)
    with duckdb.connect() as connection:
        connection.register("pairs", {"a": pairs[:, 0], "b": pairs[:, 1]})
        for format in ("parquet", "csv"):
            (folder / format).mkdir()
            connection.execute(
                "COPY (SELECT 'P' || a AS person, 'P' || b AS friend FROM pairs) "
                f"TO '{folder}/{format}/Friends.{format}' (FORMAT {format})"
            )
    return paths


FORMULAS = """
import json, sys, time
import lapis
from lapis.problem.task import build_task

def run(model):
    lapis.ground(build_task(model, query=list(model.predicates)).worlds[0].problem)

run(lapis.parse("t = {A}\\nP(t)\\n1 P(A)\\n1 P(x)"))
start = time.process_time()
model = lapis.read(sys.argv[1])
read = time.process_time()
run(model)
end = time.process_time()
print(json.dumps({"formulas": len(model.rules), "read": read - start, "ground": end - read}))
"""


def bayesian_network(path: Path, most: int = 30_000) -> str:
    """Convert a network in BIF to rules: log p, and the values of a node and its parents."""
    text = gzip.decompress(path.read_bytes()).decode()
    kinds = r"variable\s+(\S+)\s*\{\s*type\s+discrete\s*\[\s*\d+\s*\]\s*\{([^}]*)\}"
    tables = r"probability\s*\(\s*(\S+)\s*(?:\|\s*([^)]*))?\)\s*\{([^}]*)\}"
    states = {m[1]: [state.strip() for state in m[2].split(",")] for m in re.finditer(kinds, text)}

    def word(name: str) -> str:
        return re.sub(r"\W", "_", name)

    def atom(node: str, state: str) -> str:
        return f"N{word(node)}(S{word(state)})"

    declared = [f"N{word(node)}(t_{word(node).lower()}!)" for node in states]
    for node, named in states.items():
        constants = ", ".join(f"S{word(state)}" for state in named)
        declared.append(f"t_{word(node).lower()} = {{{constants}}}")
    formulas: list[str] = []
    for table in re.finditer(tables, text):
        parents = [name.strip() for name in (table[2] or "").split(",") if name.strip()]
        for row in filter(None, map(str.strip, table[3].split(";"))):
            given, _, values = row.removeprefix("table").removeprefix("(").rpartition(")")
            known = zip(parents, map(str.strip, given.split(",")), strict=bool(given))
            others = [atom(*pair) for pair in known] if given else []
            for state, value in zip(states[table[1]], values.split(","), strict=True):
                weight = math.log(max(float(value), 1e-9))
                formulas.append(f"{weight:.6g} " + " ^ ".join([atom(table[1], state), *others]))
    return "\n".join(declared + formulas[:most]) + "\n"


def random_clauses(number: int = 30_000, num_atoms: int = 2_000) -> str:
    rng = random.Random(0)
    lines = [f"A{i}" for i in range(num_atoms)]
    for _ in range(number):
        a, b, c = (rng.choice(["", "!"]) + f"A{i}" for i in rng.sample(range(num_atoms), 3))
        lines.append(f"{rng.gauss(0, 1):.4f} {a} ^ {b} => {c}")
    return "\n".join(lines) + "\n"


def time_formulas(folder: Path) -> None:
    models = {"propositions": random_clauses()}
    for name in ("munin1", "link", "diabetes"):
        path = DATA / "bayesnets" / "bif" / f"{name}.bif.gz"
        if has_data(path):
            models[name] = bayesian_network(path)
    print(f"\n{'model':16}{'formulas':>10}{'read a s':>12}{'ground a s':>12}")
    for name, text in models.items():
        (folder / "model.mln").write_text(text)
        command = [sys.executable, "-c", FORMULAS, str(folder / "model.mln")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        number = found["formulas"]
        read, ground = number / found["read"], number / found["ground"]
        print(f"{name:16}{number:10,}{read:12,.0f}{ground:12,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=1_000_000)
    parser.add_argument("--constants", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own: a child's peak memory starts from that of its parent.
        with ProcessPoolExecutor(1) as apart:
            size = (options.facts, options.constants)
            paths = apart.submit(generate, Path(folder), *size).result()
        print(f"{'format':16}{'seconds':>10}{'cpu s':>10}{'peak MB':>10}{'facts':>12}")
        for name, path in paths.items():
            command = [sys.executable, "-c", READ, str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            print(
                f"{name:16}{found['seconds']:10.2f}{found['cpu']:10.2f}"
                f"{found['megabytes']:10.0f}{found['facts']:12,}"
            )
        time_formulas(Path(folder))


if __name__ == "__main__":
    main()
