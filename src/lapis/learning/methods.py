"""Objectives and expectations, which `learning` combines, and ways to find a posterior."""

from __future__ import annotations

from lapis.registry.method_table import Method

WALKS = ("num_steps", "num_records", "chain_start")
SAMPLES = ("num_samples",)
LIKELIHOOD = ("counts", "expectation", "num_samples", *WALKS)


def choice(task: str, name: str, help: str, exact: str, options: tuple[str, ...] = ()) -> Method:
    return Method(task, name, help, exact=exact, options=options)


OBJECTIVE = (
    choice("objective", "pseudo", "Σ log P(atom given all others), by counting: no inference",
           "always", ("counts",)),
    choice("objective", "weighted-pseudo",
           "the same, each predicate divided by its number of atoms", "always", ("counts",)),
    choice("objective", "conditional", "log P(query atoms given the rest)", "where affordable",
           LIKELIHOOD),
    choice("objective", "likelihood", "log P(all atoms)", "where affordable", LIKELIHOOD),
    choice("objective", "max-margin", "the data's score over that of the best other world, less "
           "its errors; by cutting planes", "if proven", ("margin",)),
)  # fmt: skip

EXPECTATION = (
    choice("expectation", "auto", "exact where that is affordable, sampled where it is not",
           "where affordable", SAMPLES),
    choice("expectation", "exact", "by components, with the value of the likelihood", "always"),
    choice("expectation", "lifted", "from a first-order circuit, without grounding; likelihood "
           "alone", "always"),
    choice("expectation", "mcsat", "a few samples of persistent MC-SAT chains", "never", SAMPLES),
    choice("expectation", "gibbs", "a few samples of persistent Gibbs chains", "never", SAMPLES),
    choice("expectation", "map", "the most likely world: voted perceptron", "never"),
    choice("expectation", "count-gibbs", "Gibbs chains from counts, without grounding", "never",
           WALKS),
    choice("expectation", "count-map",
           "best worlds of scores with noise from counts, not grounded", "never", WALKS),
    choice("expectation", "count-maxwalksat", "the best world that MaxWalkSAT finds by counts, not "
           "grounded", "never", ("num_steps", "chain_start")),
)  # fmt: skip

POSTERIOR = (
    Method(
        "posterior", "nuts", "the no-U-turn sampler (nutpie, `lapis-mln[bayes]`)",
        "lapis.learning.bayesian:sample_nuts", "objective", "in the limit",
    ),
    Method(
        "posterior", "laplace", "a Gaussian at the mode, with the curvature there",
        "lapis.learning.bayesian:draw_laplace", "objective", "never",
    ),
)  # fmt: skip

METHODS = (*OBJECTIVE, *EXPECTATION, *POSTERIOR)
