"""`lapis ground`: the network's size, and a file of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.network.network import Network
from lapis.problem.task import build_task
from lapis.registry.options import GroundOptions
from lapis.results.result import Figures
from lapis.runtime.progress import Report


def run_ground(
    model: Path,
    worlds: Sequence[Database],
    options: GroundOptions,
    progress: Report | None,
) -> Figures:
    from lapis.grounding import ground
    from lapis.network.export import check_network_file, write_network

    if options.output is not None:
        check_network_file(options.output)
    if len(worlds) > 1:
        raise LapisError("one network is one world", code="several-worlds", hint="use --merge")
    # Weights stand in the file as they do in the model, so alike rules are not gathered.
    task = build_task(
        model,
        worlds or None,
        options.query,
        open_predicates=options.open_predicates,
        strict=options.strict,
        gather=False,
    )
    problem = task.worlds[0].problem
    # A network is a network, whether or not a world satisfies it.
    network = ground(
        problem,
        progress=progress,
        cache_dir=options.cache,
        max_memory=options.max_memory,
        check=False,
    )
    if options.output is not None:
        write_network(network, options.output)
    return summarise(network)


def summarise(network: Network) -> Figures:
    sizes = {
        "atoms": network.num_base_atoms,
        "auxiliary_atoms": network.num_atoms - network.num_base_atoms,
        "clauses": network.num_clauses,
        "hard_clauses": int((network.weight_id < 0).sum()),
        "literals": len(network.literal),
        "blocks": network.num_blocks,
        "weights": len(network.weights),
        "components": network.num_components,
        "constant_score": network.constant_score,  # which .uai has no place for
    }
    return Figures(sizes)
