"""The optimisers. Their own options are the fields of each with a `Help`."""

from __future__ import annotations

from lapis.registry.method_table import Method


def ascent(name: str, per_weight: bool, iterations: int, help: str) -> Method:
    return Method(
        "optimizer", name, help, "lapis.optimisation.gradient_ascent:GradientAscent", "objective",
        options=("rate",), iterations=iterations, fixed={"name": name, "per_weight": per_weight},
    )  # fmt: skip


METHODS = (
    Method(
        "optimizer", "lbfgs", "L-BFGS-B, to a gradient of 1e-6; needs an exact objective",
        "lapis.optimisation.lbfgs:Lbfgs", "objective", iterations=1000,
    ),
    Method(
        "optimizer", "newton", "Newton's method with the whole curvature; few weights, exact",
        "lapis.optimisation.newton:Newton", "objective", iterations=100,
    ),
    ascent("vp", False, 100, "voted perceptron: counts of the most likely world, averaged weights"),
    ascent("cd", False, 1200, "contrastive divergence: counts of a few samples, averaged weights"),
    ascent("vp-pw", True, 100, "voted perceptron with a rate per weight, η divided by its count"),
    ascent("cd-pw", True, 1200, "contrastive divergence with a rate per weight"),
    Method(
        "optimizer", "dn", "diagonal Newton", "lapis.optimisation.diagonal_newton:DiagonalNewton",
        "objective", iterations=300,
    ),
    Method(
        "optimizer", "scg", "scaled conjugate gradients",
        "lapis.optimisation.conjugate_gradient:ConjugateGradient", "objective",
        fixed={"preconditioned": False}, iterations=300,
    ),
    Method(
        "optimizer", "pscg", "scaled conjugate gradients, preconditioned by the counts' variances",
        "lapis.optimisation.conjugate_gradient:ConjugateGradient", "objective",
        fixed={"preconditioned": True}, iterations=300,
    ),
    Method(
        "optimizer", "adam", "Adam, for noisy gradients", "lapis.optimisation.adaptive:Adam",
        "objective", options=("rate",), iterations=200,
    ),
    Method(
        "optimizer", "adagrad", "AdaGrad, for noisy gradients",
        "lapis.optimisation.adaptive:AdaGrad", "objective", options=("rate",), iterations=200,
    ),
    Method(
        "optimizer", "cutting-plane", "planes from most likely worlds; max-margin learning only",
        iterations=500,
    ),
)  # fmt: skip
