"""Reading 1,000,000 facts over 200,000 constants: time and memory for each format.

Each file is read in a fresh process. The time is that of `Database.read` alone, first use
included; the memory is the peak of the whole process. The targets are 4 s and 600 MB for `.db`,
1 s for Parquet.

    python benchmarks/reading.py [--facts N] [--constants N]
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

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
    """The same friendships in every format."""
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


if __name__ == "__main__":
    main()
