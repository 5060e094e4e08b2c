"""Networks in files: .bif and .uai, plain or compressed, and .tbn where trees fit in tables."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.errors import LapisError

SUFFIXES = (".bif", ".bif.gz", ".uai", ".uai.gz", ".tbn")


def is_factor_file(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


def read_factors(path: str | Path) -> FactorGraph:
    """The network of a .bif, .uai or .tbn file."""
    path = Path(path)
    text = read_text(path)
    if path.name.lower().endswith(".tbn"):
        from lapis.circuits.tree_networks.compiling import tables_of
        from lapis.circuits.tree_networks.text import parse_network

        return tables_of(parse_network(text, str(path)))
    if path.name.lower().endswith((".bif", ".bif.gz")):
        from lapis.circuits.factors.bif import parse_bif

        return parse_bif(text, str(path))
    from lapis.circuits.factors.uai import parse_uai

    return parse_uai(text, str(path))


def read_evidence(path: str | Path, graph: FactorGraph) -> dict[int, int]:
    """The observed states of a .evid file."""
    from lapis.circuits.factors.uai import parse_evidence

    return parse_evidence(read_text(Path(path)), graph, str(path))


def read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise LapisError(f"cannot read {path}: {reason}", code="unreadable-file") from None
