"""Learn rules from declarations and complete worlds: the entry point of structure learning.

The learner of the method chosen selects clauses and weights. The result adds, for each rule, its
counts in the data, a sentence in words, and groundings that satisfy or violate it.

`dangling="best"` runs the learner twice, with and without clauses in which a variable occurs once.
Kok & Domingos (2009, section 4.2) report the better of the two on the test data, which a learner
cannot use. Here each way is scored by leave-one-out over worlds: the weighted
pseudo-log-likelihood (WPLL) of the world left out, summed over worlds. With a single world the
score is the WPLL of the training data minus the penalty of all literals.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from lapis.counting.totals import count_sign_patterns
from lapis.data.database import Database
from lapis.data.keys import contains
from lapis.errors import LapisError, TooLarge, Warning, issue_warnings
from lapis.language.model import Model, Predicate
from lapis.language.printer import print_model
from lapis.language.resolve import parse_model
from lapis.language.syntax import Variable
from lapis.logic.clauses import Literal
from lapis.optimisation.checkpoint import CheckpointFile, mismatch_error
from lapis.optimisation.replay_log import ReplayMismatchError, open_log
from lapis.problem.problem import build_problem
from lapis.registry.method_table import find_method
from lapis.registry.options import StructureOptions
from lapis.runtime.limits import limits_suspended
from lapis.runtime.progress import STOPPED, Report, Stop, stop_on_interrupt
from lapis.structure.candidates import (
    Candidate,
    PathAtom,
    variable_types,
    write_clause,
    write_failure,
    write_literals,
    write_unit,
)
from lapis.structure.clause_scores import Scorer, draw_atoms
from lapis.structure.ensemble import Ensemble
from lapis.structure.learned_rules import CONDITIONAL, PSEUDO, LearnedRule, LearnedRules, Penalty
from lapis.structure.learners.lift_graph import ClusterModel
from lapis.structure.path_differences import Joins, PartSums
from lapis.structure.rule_search import CHOOSING, RuleSearch
from lapis.structure.select import Criteria, Selection
from lapis.structure.training_data import TrainingData, join_worlds

MAX_ROWS = 100_000  # groundings of a rule's body that are searched for examples
NUM_EXAMPLES = 2
RuleLearner = Callable[[RuleSearch, StructureOptions], Selection]


def learn_rules(
    model: Model,
    databases: Sequence[Database],
    targets: Sequence[str],
    options: StructureOptions,
    *,
    joint_targets: Sequence[Sequence[str]] = (),
    jobs: int = 1,
    open_joins: Callable[[TrainingData], Joins[Any]] | None = None,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> LearnedRules:
    """Learn rules for the predicates of a model from complete worlds.

    `targets` are the predicates to predict; empty means all. With targets, every rule mentions
    one. An atom is explained from all other atoms, or from all predicates outside its group of
    `joint_targets` (`choose_conditioning`). `open_joins` opens the joins on a store; the default is
    memory. An existing checkpoint is resumed.
    """
    started = time.monotonic()
    method = options.method
    if open_joins is not None and jobs > 1:
        raise LapisError(
            "an engine scores clauses in one process, so it cannot use several jobs",
            code="engine-jobs",
            hint="leave out --engine, or --jobs",
        )
    refuse_blocks(model)
    model = drop_rules(model)
    names = choose_targets(model, targets, method)
    problems = [build_problem(model, database) for database in databases]
    groups = group_targets(names, choose_conditioning(model, options), joint_targets)
    data = join_worlds(model, problems, names, groups)
    if not any(data.num_atoms[name] for name in names):
        raise LapisError(
            "there are no atoms to explain: the data names no constants",
            code="no-atoms",
            hint="lapis check MODEL DATA shows what was read",
        )
    sample = None
    if options.sample_share < 1.0:
        sample = draw_atoms(data, options.sample_share, np.random.default_rng(options.seed))
    stop = Stop() if stop is None else stop
    file = CheckpointFile(options.checkpoint, method, hash_search(data, options))
    scorer = Scorer(data, sample, None if open_joins is None else open_joins(data))
    log = open_log(file, stop)
    search = RuleSearch(model, databases, scorer, jobs, started, progress, stop, log)
    with stop_on_interrupt(stop):
        try:
            learner = find_method("structure", method).load()
            if options.dangling == "best":
                found = choose_dangling(learner, search, options)
            else:
                found = learner(search, options)
            require_rule(search, found)
        except ReplayMismatchError:
            assert file.path is not None
            raise mismatch_error(file.path, "another search, or of another version") from None
        finally:
            file.write()
    seconds = time.monotonic() - started
    with limits_suspended():
        if isinstance(found, ClusterModel):
            return build_cluster_result(model, found, method, seconds)
        return build_result(model, data, search.scorer.sums, found, method, seconds)


def require_rule(search: RuleSearch, found: Selection | ClusterModel) -> None:
    """Raise TooLarge if the time limit ended the search before a rule was learned."""
    if found.is_whole or search.stop.requested:
        return
    if isinstance(found, Selection) and not found.clauses:
        seconds = time.monotonic() - search.started
        more = f"{4 * max(seconds, 0.05):.2g}"
        raise TooLarge(
            f"no rule was learned within the time limit: the search ended after {seconds:.2g} s",
            code=STOPPED,
            hint=f"set --time-limit {more} (time_limit={more}) or more, or search for shorter "
            "rules (--max-literals, --max-variables)",
        )


def hash_search(data: TrainingData, options: StructureOptions) -> str:
    """Return a digest of data and options, to refuse the checkpoint of another search."""
    names = ("sample_share", "seed", *find_method("structure", options.method).options)
    values = [(name, getattr(options, name)) for name in sorted(set(names))]
    found = hashlib.sha256(repr((options.method, values, data.targets, data.groups)).encode())
    for name, offset in data.offset.items():
        found.update(f"{name} {offset.tolist()}".encode())
    for name, predicate in data.predicates.items():
        found.update(f"{name} {predicate.types}".encode())
        found.update(np.ascontiguousarray(data.tuples[name]).tobytes())
        if not predicate.arity:
            found.update(data.holds(name).tobytes())
    return found.hexdigest()[:16]


def choose_conditioning(model: Model, options: StructureOptions) -> str | None:
    """Return what atoms are explained from; by default `lapis` uses the other predicates.

    The likelihood of a predicate given the others also gives that of an atom given all others. The
    reverse does not hold: weights of the pseudo-likelihood can be far off if a whole predicate is
    unknown. A single predicate has no others, so that it is explained from its other atoms.
    """
    if options.conditioning is not None or options.method != "lapis":
        return options.conditioning
    return "predicates" if len(model.predicates) > 1 else "atoms"


def group_targets(
    targets: Sequence[str], conditioning: str | None, joint_targets: Sequence[Sequence[str]]
) -> list[tuple[str, ...]]:
    """Group the targets that are unknown together; no groups if all other atoms are given."""
    joined = [name for group in joint_targets for name in group]
    if joined and conditioning == "atoms":
        raise LapisError(
            "joint targets are conditioned on other predicates, not on other atoms",
            code="together",
            hint="use --conditioning predicates",
        )
    for name in joined:
        if name not in targets or joined.count(name) > 1:
            why = "is not a target" if name not in targets else "is in two groups"
            raise LapisError(f"{name!r} cannot be a joint target: it {why}", code="together")
    if conditioning != "predicates" and not joined:
        return []
    return [*map(tuple, joint_targets), *((name,) for name in targets if name not in joined)]


def refuse_blocks(model: Model) -> None:
    for predicate in model.predicates.values():
        if predicate.block and not predicate.is_number:
            raise LapisError(
                f"rules are learned for single atoms, but {predicate.name!r} has blocks",
                code="structure-blocks",
                span=predicate.span,
                hint="drop the mark (! or ?) of its declaration",
            )


def choose_targets(model: Model, targets: Sequence[str], method: str) -> tuple[str, ...]:
    """Return the predicates to find rules for: the targets, or all.

    `lapis` and `msl` use predicates without arguments as literals. The other methods search paths,
    in which consecutive atoms share arguments. They give such a predicate a unit clause only, and
    `lift-graph` leaves it out.
    """
    names = tuple(targets) or model.uncertain_predicates
    if method in ("lapis", "msl"):
        return names
    for predicate in model.predicates.values():
        if not predicate.arity:
            kept = "" if method == "lift-graph" else ", but its unit clause"
            message = f"{predicate.name!r} has no arguments: {method} finds no rule with it{kept}"
            if predicate.name in targets:
                raise LapisError(
                    message, code="no-arguments", span=predicate.span, hint="use --method lapis"
                )
            issue_warnings([Warning(message, "no-arguments", predicate.span)])
    if method == "lift-graph":
        return tuple(name for name in names if model.predicates[name].arity)
    return names


def drop_rules(model: Model) -> Model:
    """Return the declarations alone, with a warning if the model has rules."""
    if model.rules:
        n = len(model.rules)
        message = (
            f"{n} rule{'s' * (n > 1)} of the model {'are' if n > 1 else 'is'} ignored: rules are "
            "learned from the declarations alone"
        )
        hint = (
            "add them to the learned ones and run lapis learn: the weights of all rules depend "
            "on each other"
        )
        issue_warnings([Warning(message, "rules-left-out", model.rules[0].span, hint=hint)])
    predicates = {name: model.predicates[name] for name in model.uncertain_predicates}
    return replace(model, predicates=predicates, rules=())


def choose_dangling(
    learner: RuleLearner, search: RuleSearch, options: StructureOptions
) -> Selection:
    """Run the learner with and without dangling variables; return the better result."""
    if search.data.groups:
        raise LapisError(
            "--dangling best compares pseudo-likelihoods, which do not condition on predicates",
            code="dangling-best",
            hint="use --dangling keep or drop, or --conditioning atoms",
        )
    ways = replace(options, dangling="keep"), replace(options, dangling="drop")
    if search.data.num_worlds > 1:
        values = search.collect(
            CHOOSING, lambda own: (score_left_out(learner, own, way) for way in ways)
        )
        if not search.is_whole:
            return learner(search, replace(options, dangling=None))
        return learner(search, ways[int(np.argmax(values))])
    penalty = Criteria.penalty if options.penalty is None else options.penalty

    def penalized_value(found: Selection) -> float:
        return found.value - penalty * sum(len(clause.candidate) for clause in found.clauses)

    first = search.collect(CHOOSING, lambda own: iter([learner(own, ways[0])]))
    return max((*first, learner(search, ways[1])), key=penalized_value)


def score_left_out(learner: RuleLearner, search: RuleSearch, options: StructureOptions) -> float:
    """Return Σ over worlds of the WPLL of rules that were learned from the other worlds."""

    def select_worlds(numbers: list[int]) -> TrainingData:
        problems = [build_problem(search.model, search.databases[number]) for number in numbers]
        return join_worlds(search.model, problems, search.data.targets)

    total = 0.0
    for number in range(search.data.num_worlds):
        others = [at for at in range(search.data.num_worlds) if at != number]
        databases = [search.databases[at] for at in others]
        scorer = Scorer(select_worlds(others))
        found = learner(search._replace(databases=databases, scorer=scorer), options)
        test = select_worlds([number])
        ensemble = Ensemble(test, PartSums(test))
        for clause in found.clauses:
            ensemble.add(clause.candidate)
        weights = [clause.weight for clause in found.clauses]
        units = [found.units.get(target.predicate, 0.0) for target in ensemble.targets]
        total += ensemble.value_at(np.array([*weights, *units]), frozenset())[0]
    return total


def build_result(
    model: Model,
    data: TrainingData,
    sums: PartSums,
    found: Selection,
    method: str,
    seconds: float,
) -> LearnedRules:
    """Build the result, with the counts of every rule in the data."""
    rules = [
        count_rule(data, sums, clause.candidate, clause.weight, clause.gain)
        for clause in found.clauses
    ]
    for name, weight in found.units.items():
        text, true = write_unit(data.predicates[name]), len(data.tuples[name])
        rules.append(LearnedRule(text, weight, None, None, true, data.num_atoms[name]))
    return LearnedRules(
        method, tuple(rules), add_rules(model, rules), found.value, found.unit_value,
        not found.is_whole, seconds, warnings=tuple(warn_lost_gains(found)),
        measure=CONDITIONAL if data.groups else PSEUDO, penalties=list_penalties(data, found),
        held_out=found.held_out,
    )  # fmt: skip


def list_penalties(data: TrainingData, found: Selection) -> dict[str, Penalty]:
    """Return the penalties that were chosen, by predicate; empty if a penalty was given."""
    if found.prices is None:
        return {}
    plain, coupling = found.prices
    return {
        name: Penalty(nats, nats * data.atom_share[name], coupling[name])
        for name, nats in plain.items()
    }


def warn_lost_gains(found: Selection) -> Iterator[str]:
    """Warn of predicates whose gain is lost in held-out parts, or that nothing was held out."""
    if found.prices is None or not found.is_whole or not found.clauses:
        return
    if found.held_out is None:
        yield (
            "nothing was held out, the only world is too small: how far the gain carries over to "
            "other worlds is not known"
        )
        return
    for name in found.held_out.lost:
        own = found.held_out.predicates[name]
        yield (
            f"the gain for {name} does not carry over: {own.training:.4f} an atom where rules are "
            f"learned, {own.held_out:.4f} in parts held out"
        )


def build_cluster_result(
    model: Model, found: ClusterModel, method: str, seconds: float
) -> LearnedRules:
    learned = add_rules(model, found.rules, found.declarations)
    return LearnedRules(
        method, found.rules, learned, found.value, found.unit_value, not found.is_whole, seconds,
        details={"clusters": found.members},
    )  # fmt: skip


def add_rules(model: Model, rules: Sequence[LearnedRule], declarations: str = "") -> Model:
    lines = [f"{rule.weight!r} {rule.text}\n" for rule in rules]
    learned = parse_model(print_model(model) + declarations + "".join(lines))
    return replace(learned, name=model.name)


def count_rule(
    data: TrainingData, sums: PartSums, candidate: Candidate, weight: float, gain: float
) -> LearnedRule:
    """Count the groundings in which a clause is true, and those in which all its atoms are.

    A clause of weight w < 0 becomes its negation, a conjunction of weight −w.
    """
    path = candidate.path
    types = variable_types(path, data.predicates)
    variables = tuple((str(number), type_name) for number, type_name in types.items())
    literals = [
        Literal(atom.predicate, tuple(Variable(str(number)) for number in atom.variables), True)
        for atom in path
    ]
    groundings = support = false = 0
    for world in data.worlds:
        counts = count_sign_patterns(literals, variables, world)
        groundings += sum(counts)
        support += counts[-1]
        false += counts[len(counts) - 1 & ~candidate.positive]
    examples, counterexamples = find_examples(data, sums, candidate)
    words = describe_clause(candidate, data.predicates, negated=weight < 0)
    text, true = write_clause(candidate, data.predicates), groundings - false
    if weight < 0:
        examples, counterexamples = counterexamples, examples
        text, true = write_failure(candidate, data.predicates), false
    return LearnedRule(
        text, abs(weight), gain, support, true, groundings, words, examples, counterexamples
    )


def describe_clause(
    candidate: Candidate, predicates: Mapping[str, Predicate], *, negated: bool = False
) -> str:
    """Write the clause, or its negation, as a sentence.

    >>> both = {"Smokes": Predicate("Smokes", ("person",)), "Ill": Predicate("Ill", ("person",))}
    >>> clause = Candidate((PathAtom("Ill", (0,)), PathAtom("Smokes", (0,))), 1)
    >>> describe_clause(clause, both), describe_clause(clause, both, negated=True)
    ('if Smokes(p), then Ill(p)', 'Smokes(p) without Ill(p)')
    """
    body, head = write_literals(candidate, predicates)
    if negated:
        parts = [" and ".join(body)] if body else []
        return " ".join([*parts, *([f"without {' or '.join(head)}"] if head else [])])
    if not head:
        return f"not all of {', '.join(body)} at once"
    if not body:
        return f"at least one of {', '.join(head)}"
    return f"if {' and '.join(body)}, then {' or '.join(head)}"


def find_examples(
    data: TrainingData, sums: PartSums, candidate: Candidate
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find groundings whose body is true: some that satisfy the clause, some that violate it.

    Both are empty for clauses with predicates without arguments.
    """
    body = [atom for atom, is_positive in candidate.literals if not is_positive]
    if not body or not all(atom.variables for atom in candidate.path):
        return (), ()
    bound = list(dict.fromkeys(v for atom in body for v in atom.variables))
    head = [
        atom
        for atom, is_positive in candidate.literals
        if is_positive and set(atom.variables) <= set(bound)
    ]
    rows = sums.column(body, bound).rows[:MAX_ROWS]
    is_satisfied = np.zeros(len(rows), bool)
    for atom in head:
        at = rows[:, [bound.index(v) for v in atom.variables]]
        is_satisfied |= contains(data.tuples[atom.predicate], np.ascontiguousarray(at))
    types = variable_types(candidate.path, data.predicates)
    bound_types = [types[v] for v in bound]

    def write_atoms(chosen: np.ndarray, atoms: list[PathAtom]) -> Iterator[str]:
        for row in chosen:
            names = dict(zip(bound, data.constant_names(bound_types, row.tolist()), strict=True))
            yield ", ".join(
                f"{a.predicate}({', '.join(names[v] for v in a.variables)})" for a in atoms
            )

    examples = tuple(islice(write_atoms(rows[is_satisfied], [*body, *head]), NUM_EXAMPLES))
    if len(head) < candidate.positive.bit_count():
        # Another positive literal, with variables outside the body, may satisfy the clause.
        return examples, ()
    return examples, tuple(islice(write_atoms(rows[~is_satisfied], body), NUM_EXAMPLES))
