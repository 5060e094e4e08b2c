"""How well a field explains data."""

from __future__ import annotations

from collections.abc import Sequence

from lapis.fields.enumeration import MAX_ATOMS, enumerate_field
from lapis.fields.infer import FieldLike, open_field
from lapis.fields.passes import evaluate
from lapis.fields.pseudo import make_lesson, pseudo_log_likelihood
from lapis.learning.examples import build_examples
from lapis.methods import check_options
from lapis.problem.query import query_predicates
from lapis.problem.task import DataLike, open_inputs
from lapis.results.result import Figures


def score(
    field: FieldLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    max_memory: int | None = None,
    likelihood: bool = True,
    strict: bool = False,
) -> Figures:
    """Log-likelihood and pseudo-log-likelihood of all atoms, or of the query's given the others.

    The log-likelihood is exact or nothing: it needs all worlds of the atoms asked. `mean_pseudo` is
    the pseudo-log-likelihood of an atom on average.

    >>> from lapis import Database, fields
    >>> field = fields.parse("t = {A, B}\\nP(t)\\nroot:\\n 0 P(x)")
    >>> found = fields.score(field, Database.parse("P(A)"))
    >>> round(found.values["pseudo_log_likelihood"], 4)
    -1.3863
    """
    check_options("field score", locals())
    resolved = open_field(field)
    inputs = open_inputs(resolved.declarations, data, strict=strict)
    asked = query_predicates(query, inputs.model)
    weights = resolved.weights
    total, atoms = 0.0, 0
    exact: float | None = 0.0 if likelihood else None
    for example in build_examples(inputs.model, inputs.databases, asked):
        lesson = make_lesson(resolved, example, max_memory)
        ground = lesson.cached.ground
        total += pseudo_log_likelihood(lesson, weights)[0]
        atoms += len(ground.cell)
        if exact is not None and len(ground.cell) <= MAX_ATOMS:
            own = evaluate(ground, weights, lesson.world[None]).log_weight(ground)[0]
            exact += float(own) - enumerate_field(ground, weights).log_partition
        else:
            exact = None
    return Figures(
        {
            "log_likelihood": exact,
            "pseudo_log_likelihood": total,
            "mean_pseudo": total / atoms if atoms else None,
            "atoms": atoms,
        }
    )
