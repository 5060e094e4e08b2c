"""Cutting planes: minimise a penalty plus the largest of endlessly many linear functions.

    J(w) = penalty(w) + C · hinge(w),    hinge(w) = max_t (loss_t − slope_t · w) ≥ 0

Joachims, Finley & Yu (Cutting-Plane Training of Structural SVMs, 2009, the 1-slack form). An
oracle gives the linear function that is largest at one w, a cut. The cuts met so far are a lower
model of the hinge; its minimiser is where the oracle is asked next. The model's least value bounds
J from below, J at the best w met bounds it from above: their gap is a certificate, whatever the
rounding errors on the way. An oracle that cannot prove its cut to be the largest says by how much
it may have missed (`excess`), and the gap stays that much wider.

With a Gaussian penalty the model is minimised in its dual, a quadratic program over the simplex
with one variable for each cut and none for each weight, so its size is tens where weights are
thousands. Weights are measured in units of their prior widths there; beyond that no scaling is
needed, since the dual sees inner products of cuts alone. It is solved by an active set: cuts with
a positive multiplier, a Newton step within their face, one cut added or dropped at a time. With an
l1 penalty the model is a linear program, kept in HiGHS and resumed from its last basis.

Deviation: asking at the minimiser of the model alone makes the first cuts useless, because far
from the data's weights the hinge is steep and each new minimiser overshoots. Every other question
is asked halfway between it and the best w so far (Franc & Sonnenburg, Optimized Cutting Plane
Algorithm for SVMs, ICML 2008, who search along this line; a search costs more most likely worlds
than it saves here).

What did not work: HiGHS on the quadratic program. Cuts near the optimum are almost parallel, and
its active set stops with errors on Gram matrices that are singular to working precision.
"""
