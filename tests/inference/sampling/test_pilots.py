"""Pilots: which sampler continues, on any number of cores, and the predicted time."""

from __future__ import annotations

from lapis.inference.sampling.chains import run_chains
from lapis.inference.sampling.cluster import ClusterSampler
from lapis.inference.sampling.gibbs import Gibbs
from lapis.inference.sampling.mcsat import MCSAT
from lapis.results.answer import quality_remarks
from lapis.runtime.progress import SECONDS_LEFT, Progress
from sampled_networks import agreement, equivalence


def test_the_choice_does_not_depend_on_the_cores_or_the_order() -> None:
    network = agreement(14, 0.9, 0.05)
    one = run_chains(network, Gibbs(), rivals=[ClusterSampler()], num_threads=1, seed=3)
    two = run_chains(network, Gibbs(), rivals=[ClusterSampler()], num_threads=2, seed=3)
    turned = run_chains(network, ClusterSampler(), rivals=[Gibbs()], seed=3)
    assert one.method == two.method == turned.method == "cluster"
    assert one.pilots == two.pilots == turned.pilots
    assert one.pilots["cluster"] == 1.0 < one.pilots["gibbs"]
    assert (one.marginal == two.marginal).all()
    assert (one.stderr == turned.stderr).all()


def test_a_rival_that_may_be_on_an_island_has_no_pilot() -> None:
    network = equivalence(7, 0.6)
    assert Gibbs().prepare(network).ergodic is None
    found = run_chains(network, MCSAT(), rivals=[Gibbs()], max_samples=2_000)
    assert set(found.pilots) == {"mcsat"}


def test_the_time_left_is_told() -> None:
    seen: list[Progress] = []
    network = agreement(5, 0.3, 0.1)
    found = run_chains(network, Gibbs(), precision=1e-4, max_samples=4_000, progress=seen.append)
    left = [progress.figures.get("seconds left", 0.0) for progress in seen]
    assert max(left) > 0
    assert all(next(iter(event.figures)) == SECONDS_LEFT for event in seen if event.figures)
    assert 0 < found.seconds_left < float("inf")
    assert run_chains(network, Gibbs(), precision=0.02).seconds_left == 0.0


def test_remarks_on_time_and_on_few_effective_samples() -> None:
    late = {"converged": False, "rhat": 1.0123, "seconds_left": 344.4}
    assert quality_remarks(late) == [
        "not converged (worst R-hat 1.012; about 344 s more for the precision asked): allow more "
        "--max-samples or --time-limit, or try --method tempering"
    ]
    few = {"converged": True, "chains": 4, "ess_bulk": 731.2, "ess_tail": 212.7}
    assert quality_remarks(few) == [
        "few effective samples (213 in 4 chains, 100 a chain are wanted): the standard errors are "
        "rough; a smaller --precision samples more"
    ]
    assert quality_remarks(few | {"ess_tail": 400.0}) == []


def test_pilots_say_how_long_it_may_take() -> None:
    """Progress events have an estimate of the time before the end of warm-up."""
    seen: list[Progress] = []
    network = agreement(14, 0.2, 0.05)
    run_chains(network, Gibbs(), rivals=[ClusterSampler()], precision=1e-3, max_samples=4_000,
               progress=seen.append)  # fmt: skip
    early = [event.figures["seconds left"] for event in seen
             if event.phase == "warm-up" and "seconds left" in event.figures]  # fmt: skip
    assert early
    assert max(early) > 0


def test_a_run_that_ends_in_warm_up_has_not_reached_its_precision() -> None:
    found = run_chains(agreement(14, 0.2, 0.05), Gibbs(), precision=1e-4, time_limit=1e-6)
    assert not found.converged
    assert found.seconds_left > 0
