"""Read models of all formats: Markov logic and ProbLog programs, Bayesian and Markov networks."""

from __future__ import annotations

from pathlib import Path

from lapis.language.model import Model
from lapis.language.resolve import read_model
from lapis.problem.task import ModelLike

NETWORKS = (".bif", ".bif.gz", ".uai", ".uai.gz", ".tbn")


def read(path: str | Path) -> Model:
    """Read a model from a file.

    Parameters
    ----------
    path
        A Markov logic file (`.mln`; paths of includes are relative to it), a ProbLog program
        (`.pl`, `.problog`), or a Bayesian or Markov network (`.bif`, `.uai`, `.tbn`).

    Returns
    -------
    Model
        The model. The variables of a network, and the ground atoms of a program, are its
        predicates.

    Raises
    ------
    LapisError
        If the file is missing, or its text is wrong.
    """
    if Path(path).name.lower().endswith(NETWORKS):
        from lapis.circuits.network_models import read_network

        return read_network(path)
    return read_model(path)


def open_network(model: ModelLike) -> ModelLike:
    """Read a network that is given by its path; return other models as they are."""
    if isinstance(model, str | Path) and Path(model).name.lower().endswith(NETWORKS):
        return read(model)
    return model
