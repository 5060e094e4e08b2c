"""Sessions: a model on data that changes, and answers that follow.

A change is ground at once, so that an error is raised where it is made, and nothing is changed by
it. Components are solved when an answer is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, fields, replace
from itertools import product
from numbers import Real
from types import TracebackType
from typing import Any

import numpy as np

from lapis import operations
from lapis.data.database import Database, Domain
from lapis.data.lazy_database import LazyDatabase
from lapis.errors import LapisError, suggestion
from lapis.explanation.answered_task import AnsweredTask
from lapis.grounding.bottom_up import ground
from lapis.grounding.live_grounding import LiveGrounding, is_live
from lapis.inference.live_answers import LiveAnswers, SolvedCounts
from lapis.inference.marginals import InferenceOptions
from lapis.inference.worlds import add_bounds, add_notes, answer_world
from lapis.language.model import InstanceWeights, Model, Rule
from lapis.network.csr import row_starts
from lapis.problem.problem import count_weights, predicate_evidence, weights_of_rule
from lapis.problem.query import Query, read_queries, resolve_queries
from lapis.problem.state_names import StatesLike, list_states
from lapis.problem.task import (
    DataLike,
    Inputs,
    ModelLike,
    World,
    WorldLike,
    bind_known,
    open_inputs,
)
from lapis.registry.method_table import check_options, find_method, seed_of
from lapis.registry.options import InferOptions, MapOptions, Missing, SoftAs
from lapis.results.answer import Answer, MostLikelyWorld
from lapis.runtime.limits import limit_work
from lapis.runtime.progress import work_clock
from lapis.runtime.progress_bars import ProgressOption, as_report
from lapis.session.fact_changes import (
    Action,
    ChangedFacts,
    FactsLike,
    change_facts,
    read_facts,
)

JournalEntry = tuple[str, tuple[int, ...], int]  # an atom, and what was known of it


@dataclass(frozen=True)
class SessionChange:
    """What `undo` restores."""

    database: Database
    model: Model
    predicates: tuple[str, ...] = ()  # whose facts changed
    journal: tuple[JournalEntry, ...] = ()
    weights: np.ndarray | None = None  # float64[num_weights], if they changed
    regrounds: bool = False  # constants were added


class Session:
    """A model on data that changes: each answer equals that of `infer` on the present data.

    After a change only the clauses that contain a changed fact are ground again, and only the
    components that they touch are solved again. Models with quantifiers, counts, tables or stated
    probabilities, and methods that answer a problem as a whole, are answered anew each time.

    Parameters
    ----------
    model
        A model or the path of one.
    data
        Facts: a database, the path of one, or None.
    query
        Predicates, atoms or formulas ("P(x) ^ Q(x)"); if empty, the atoms marked unknown (?).
    open_predicates
        Further predicates whose atoms are unknown unless the data states them.
    evidence
        Facts beside the data ("Smokes(Anna), !Cancer(Bob)"), or the states of variables of a
        network: {"smoke": "yes"} or "smoke=yes".
    only_listed
        Ask only the query atoms that the data marks unknown (?P(A)); the others are as in the data,
        false if it does not state them.
    soft_evidence
        Probabilities of atoms, as in {"Smokes(Anna)": 0.7}.
    soft_as
        What soft evidence states: "virtual" or "posterior", as in `infer`.
    method
        Name of a method (`lapis.methods`); "auto" is exact if affordable and samples the rest.
    precision
        Largest standard error of a sampled marginal.
    time_limit
        Seconds after which an answer is returned as far as it is found, marked interrupted.
    max_samples
        Number of samples in all chains after warm-up.
    num_chains
        Number of chains, run on all cores.
    random_state
        Seed of everything random, or a generator to draw one from.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    ibound
        Method "count-gibbs": estimate counts by IJGP with this bound.
    bounds
        Whether to add certified lower and upper bounds to marginals that are not exact.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    missing
        What a number means that the data lack and a formula needs: "error", or "skip" (such
        groundings are left out).
    relax
        Violate the fewest hard formulas if they contradict each other, and list them.
    engine
        A database ("duckdb:FILE", "postgresql://…") with the facts in tables. Facts of predicates
        of the model are read once; changes stay in the session.
    tables
        The engine's own tables as data: a schema, a folder of Parquet files, or a TOML file.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.

    Raises
    ------
    LapisError
        If an input or an option is wrong, or the hard formulas contradict each other or the data.
    TooLarge
        If the ground network does not fit in memory.

    Examples
    --------
    >>> import lapis
    >>> model = lapis.parse("person = {Anna, Bob}\\nSmokes(person)\\nFriends(person, person)\\n"
    ...                     "1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)")
    >>> session = lapis.Session(model, lapis.Database.parse("Friends(Anna, Bob)"), "Smokes")
    >>> round(session.ask()["Smokes(Bob)"], 4)
    0.6205
    >>> session.add("Smokes(Anna)")
    >>> round(session.ask()["Smokes(Bob)"], 4)
    0.8176
    >>> session.undo()
    >>> round(session.ask()["Smokes(Bob)"], 4)
    0.6205
    """

    def __init__(
        self,
        model: ModelLike,
        data: WorldLike | None = None,
        query: Sequence[str] | str = (),
        *,
        open_predicates: Sequence[str] = (),
        evidence: StatesLike = (),
        only_listed: bool = False,
        soft_evidence: Mapping[str, float] | None = None,
        soft_as: SoftAs = "virtual",
        method: str = "auto",
        precision: float = 0.01,
        time_limit: float | None = None,
        max_samples: int = 400_000,
        num_chains: int = 4,
        random_state: int | np.random.Generator = 0,
        max_memory: int | None = None,
        ibound: int | None = None,
        bounds: bool = False,
        strict: bool = False,
        missing: Missing = "error",
        relax: bool = False,
        engine: str | None = None,
        tables: str | None = None,
        progress: ProgressOption = True,
    ) -> None:
        self._options = InferOptions(
            query=query,
            open_predicates=open_predicates,
            evidence=list_states(evidence),
            only_listed=only_listed,
            soft_evidence=soft_evidence,
            soft_as=soft_as,
            method=method,
            precision=precision,
            time_limit=time_limit,
            max_samples=max_samples,
            num_chains=num_chains,
            random_state=seed_of(random_state),
            max_memory=max_memory,
            ibound=ibound,
            bounds=bounds,
            strict=strict,
            missing=missing,
            relax=relax,
            engine=engine,
            tables=tables,
        )
        check_options(self._options)
        self._stack = ExitStack()
        self._report = as_report(progress)
        self._history: list[SessionChange] = []
        self._is_open = True
        self._live: LiveGrounding | None = None
        with self._limits():
            self._read(model, data)

    def _read(self, model: ModelLike, data: DataLike) -> None:
        """Read the model and the data, and ground them."""
        known = operations.open_model(model, self._options)
        opened, data, observed = operations.open_evidence(known, data)
        given = [*observed, *self._options.evidence]
        inputs = self._open_inputs(opened, data)
        if len(inputs.databases) != 1:
            raise LapisError(
                f"a session has one world, not {len(inputs.databases)}",
                code="no-data",
                hint="merge the databases, or open a session for each",
            )
        self.model = inputs.model
        evidence = given if self.model.has_variables else ()
        self._options = replace(self._options, evidence=evidence, engine=None, tables=None)
        [source] = inputs.databases
        self._database = bind_known(source, self.model, given)
        self._prepare(source if isinstance(source, LazyDatabase) else None)

    def _open_inputs(self, model: ModelLike, data: DataLike) -> Inputs:
        """Read the model and its data, from files or from tables of an engine."""
        options = self._options
        if options.engine is None and options.tables is None:
            return open_inputs(
                model, data, strict=options.strict, fits=True, tables=True, constraints=True
            )
        from lapis.stores.mapped_tables import open_on_engine

        opened = open_on_engine(
            model, data, options.engine, options.tables, strict=options.strict,
            max_memory=options.max_memory,
        )  # fmt: skip
        return self._stack.enter_context(opened)[0]

    def _prepare(self, source: Database | None = None) -> None:
        """Build the problem of the present data, and ground it if its network can be kept.

        `source` has the same facts, in a store.
        """
        task = operations.open_task(self.model, source or self._database, self._options)
        [world] = task.worlds
        live = None
        if self._may_be_live(world):
            live = LiveGrounding(world.problem, self._options.max_memory, self._report)
            options = self._inference_options()
            self._answers = LiveAnswers(live.network, self._options.method, options)
        self._task, self._world, self._live = task, world, live

    def _may_be_live(self, world: World) -> bool:
        """Return whether the network of a world is kept; otherwise it is answered as a whole."""
        options = self._options
        whole = find_method("infer", options.method).takes == "problem"
        if whole or options.relax or options.soft_evidence or world.constraints:
            return False
        return is_live(world.problem)

    def _limits(self) -> AbstractContextManager[None]:
        """Return the limits of time and memory of a call."""
        if not self._is_open:
            raise LapisError(
                "the session is closed", code="closed", hint="open another one: lapis.Session(…)"
            )
        return limit_work(self._options.time_limit, self._options.max_memory)

    def _inference_options(self) -> InferenceOptions:
        return operations.inference_limits(self._options, self._report, None)

    @property
    def data(self) -> Database:
        """The present facts; `infer` on them gives the answer of the session."""
        return self._database

    def add(self, facts: FactsLike) -> None:
        """Add facts to the data; known facts stay.

        Parameters
        ----------
        facts
            Facts as in data files, as in "Smokes(Anna) !Smokes(Bob)", a list of these, or a
            database. Constants may be new.

        Raises
        ------
        LapisError
            If a fact contradicts another one, a block or a hard formula, or its predicate is
            unknown. Nothing is changed then.
        """
        self._change(facts, "add")

    def remove(self, facts: FactsLike) -> None:
        """Remove facts from the data; their atoms are unknown, or false if not open.

        Parameters
        ----------
        facts
            Facts as the data states them: "Smokes(Anna)", "!Smokes(Bob)", "?Smokes(Carl)".

        Raises
        ------
        LapisError
            If the data does not state a fact, or a block or hard formula is contradicted. Nothing
            is changed then.
        """
        self._change(facts, "remove")

    def unknown(self, atoms: FactsLike) -> None:
        """Mark atoms unknown, whatever the data states of them.

        Parameters
        ----------
        atoms
            Ground atoms, as in "Smokes(Anna)".

        Raises
        ------
        LapisError
            If a predicate is unknown. Nothing is changed then.
        """
        self._change(atoms, "unknown")

    def _change(self, facts: FactsLike, action: Action) -> None:
        """Change the facts and ground the clauses that contain them."""
        with self._limits():
            given = read_facts(facts, self.model)
            changed = change_facts(self._database, self.model, given, action)
            before = SessionChange(self._database, self.model)
            if self._live is None:
                self._history.append(self._reground(changed.database, before))
            else:
                self._history.append(self._ground_change(self._live, changed, before))

    def _reground(self, database: Database, before: SessionChange) -> SessionChange:
        """Ground everything on other facts; return to those before if they are refused."""
        self._database = database
        try:
            self._prepare()
            if self._live is None:
                self._refuse_contradiction()
        except LapisError:
            self._database = before.database
            raise
        return replace(before, regrounds=True)

    def _refuse_contradiction(self) -> None:
        """Raise if hard formulas or blocks contradict the facts; fitted weights are not known."""
        problem = self._world.problem
        strict = any(rule.hard for rule in problem.model.rules)
        strict |= any(predicate.block for predicate in problem.model.predicates.values())
        whole = find_method("infer", self._options.method).takes == "problem"
        if strict and not (whole or problem.model.constraints or self._options.relax):
            ground(problem, max_memory=self._options.max_memory)

    def _ground_change(
        self, live: LiveGrounding, changed: ChangedFacts, before: SessionChange
    ) -> SessionChange:
        """Ground a change; restore everything if it is refused."""
        if changed.constants and not self._may_grow(live, changed):
            return self._reground(changed.database, before)
        journal: list[JournalEntry] = []
        self._database = changed.database
        try:
            for type_name, constant in changed.constants:
                live.grow(type_name, constant, self._answers.touch)
            self._state_evidence(live, changed.atoms)
            for name, rows in changed.atoms.items():
                for row, kind in live.stated_kinds(name, rows).items():
                    journal.append((name, row, live.kind(name, row)))
                    live.settle_atom(name, row, kind, self._answers.touch)
            self._divide(live, check=True)
        except LapisError:
            if changed.constants:
                self._database = before.database
                self._prepare()
            else:
                self._restore(live, before.database, changed.atoms, journal)
            raise
        return replace(
            before,
            journal=tuple(journal),
            predicates=tuple(changed.atoms),
            regrounds=bool(changed.constants),
        )

    def _may_grow(self, live: LiveGrounding, changed: ChangedFacts) -> bool:
        """Return whether new constants change neither the rules nor the queries."""
        rules = live.problem.model.rules[: len(self.model.rules)]
        same_rules = all(one is other for one, other in zip(rules, self.model.rules, strict=False))
        return (
            same_rules
            and len(self._world.queries) >= len(self._task.queries)
            and all(live.may_grow(type_name) for type_name, _ in changed.constants)
        )

    def _state_evidence(self, live: LiveGrounding, names: Iterable[str]) -> None:
        """Take the evidence on some predicates from the database."""
        evidence = dict(live.problem.evidence)
        for name in names:
            known = evidence[name]
            evidence[name] = predicate_evidence(known.predicate, self._database, known.open, None)
        live.problem = replace(live.problem, evidence=evidence)

    def _divide(self, live: LiveGrounding, *, check: bool = False) -> None:
        """Find the components that the changed ones became."""
        self._answers.relabelled(live.network.relabel(self._answers.dirty))
        if check:
            live.refuse_contradiction(self._answers.dirty)

    def _restore(
        self,
        live: LiveGrounding,
        database: Database,
        predicates: Iterable[str],
        journal: Sequence[JournalEntry],
    ) -> None:
        """Return to earlier facts of some predicates."""
        self._database = database
        self._state_evidence(live, predicates)
        for name, row, kind in reversed(journal):
            live.settle_atom(name, row, kind, self._answers.touch)
        self._divide(live)

    def set_weight(self, rule: int | str, weight: float) -> None:
        """Change the weight of a rule; nothing is ground again.

        Parameters
        ----------
        rule
            The formula as `Answer.expected` prints it, or its place in the model, 0 first. The
            formula of a rule with + variables stands for all its weights, one with constants in
            place of these for one of them.
        weight
            The new weight.

        Raises
        ------
        LapisError
            If there is no such rule, it is hard, or the weight is not a finite number.
        """
        with self._limits():
            place, number = self._find_weight(rule)
            check_weight(weight)
            before = SessionChange(self._database, self.model)
            self.model = with_weight(self.model, place, number, weight, self._world.problem.domains)
            if self._live is not None:
                problem = self._live.problem
                offset = int(self._weight_offsets()[place])
                last = int(self._weight_offsets()[place + 1])
                own = self._world.weight_ids[offset:last]
                own = own if number is None else own[number : number + 1]
                before = replace(before, weights=problem.weight_table.value)
                weights = problem.weight_table.value.copy()
                weights[own] = weight
                self._reweigh(self._live, weights)
            self._history.append(before)

    def _weight_offsets(self) -> np.ndarray:
        """Return int64[num_rules + 1], the first weight of each of the user's rules."""
        domains = self._world.problem.domains
        return row_starts([count_weights(rule, domains) for rule in self.model.rules])

    def _find_weight(self, rule: int | str) -> tuple[int, int | None]:
        """Return a rule, and one of its weights if its constants are given."""
        rules = self.model.rules
        if isinstance(rule, int) and 0 <= rule < len(rules):
            return refuse_hard(rules[rule], rule), None
        names = [each.text for each in rules]
        if rule in names:
            place = names.index(str(rule))
            return refuse_hard(rules[place], place), None
        for place, each in enumerate(rules):
            if each.plus:
                found = self._world.problem.rule_weight_names(each)
                if rule in found:
                    return place, found.index(str(rule))
        by_name = "a rule is named by its formula, without its weight"
        in_order = f"the model has {len(rules)} rules, from 0"
        hint = suggestion(rule, names, by_name) if isinstance(rule, str) else in_order
        raise LapisError(f"no rule {rule!r}", code="unknown-formula", hint=hint)

    def _reweigh(self, live: LiveGrounding, weights: np.ndarray) -> None:
        """Change weights, float64[num_weights]."""
        network = live.network
        changed = np.flatnonzero(weights != network.weights)
        labels = network.labels_with_weight(changed)
        if 2 * len(labels) > len(network.all_labels()):
            self._answers.touch_all()
        else:
            self._answers.touch(labels.tolist())
        live.problem = live.problem.with_weights(weights)
        network.weights = weights

    def undo(self) -> None:
        """Take back the last change that was not taken back; answers return to earlier ones.

        Raises
        ------
        LapisError
            If there is no change to take back.
        """
        if not self._history:
            raise LapisError("there is no change to undo", code="no-change")
        with self._limits():
            last = self._history.pop()
            self.model = last.model
            if self._live is None or last.regrounds:
                self._database = last.database
                self._prepare()
            elif last.weights is not None:
                self._reweigh(self._live, last.weights)
            else:
                self._restore(self._live, last.database, last.predicates, last.journal)

    def ask(self, atoms: Sequence[str] | str = ()) -> Answer:
        """Answer the query on the present data.

        Parameters
        ----------
        atoms
            Predicates or ground atoms instead of the session's query; they are not opened.

        Returns
        -------
        Answer
            As `infer` returns it; `diagnostics["session"]` has the work that it took.

        Raises
        ------
        LapisError
            If an atom is unknown to the model.
        TooLarge
            If the method cannot answer within its limits.
        """
        with self._limits():
            if self._live is None:
                return self._ask_whole(atoms)
            began = work_clock()
            self._answers.options = self._inference_options()
            solved = self._answers.solve()
            network, found = self._answers.answer()
            world = self._world._replace(problem=self._live.problem)
            if atoms:
                world = world._replace(queries=self._read_atoms(atoms))
            answer = answer_world(world, network, found)
            if self._options.bounds:
                whole = self._live.network.build_all().network
                answer = add_bounds(answer, world, whole, found, self._answers.options)
            answer = replace(answer, formulas=self._weight_names())
            notes = {"session": self._describe(solved, work_clock() - began)}
            return replace(
                answer,
                diagnostics=add_notes(self._task, {**answer.diagnostics, **notes}),
                source=AnsweredTask(
                    replace(self._task, model=self.model, worlds=(world,)), self._options.seed
                ),
            )

    def _ask_whole(self, atoms: Sequence[str] | str) -> Answer:
        """Answer without anything kept from earlier answers."""
        if atoms:
            raise LapisError(
                "this session answers its own query only: it solves the whole problem each time",
                code="query",
                hint="open a session with these queries",
            )
        began = work_clock()
        answer = operations.infer(self.model, self._database, self._options, self._report)
        notes = {"session": {"kept": False, "seconds": work_clock() - began}}
        return replace(answer, diagnostics={**answer.diagnostics, **notes})

    def _read_atoms(self, atoms: Sequence[str] | str) -> tuple[Query, ...]:
        """Return queries of predicates and ground atoms."""
        formulas = read_queries(self.model, atoms)
        found = resolve_queries(self.model, [self._world.problem.domains], formulas)
        for query in found:
            if query.rule is not None:
                raise LapisError(
                    "ask takes predicates and ground atoms, not formulas",
                    code="query",
                    hint="open the session with the formula as a query",
                )
        return found

    def _weight_names(self) -> list[str]:
        """Return the formula of each weight."""
        problem = self._world.problem
        return [name for rule in self.model.rules for name in problem.rule_weight_names(rule)]

    def _describe(self, solved: SolvedCounts, seconds: float) -> dict[str, Any]:
        """Return the work of an answer."""
        return {
            "kept": True,
            "components_solved": solved.components,
            "atoms_solved": solved.atoms,
            "seconds": seconds,
        }

    def map(self) -> MostLikelyWorld:
        """Find the most likely world of the present data, anew each time.

        Returns
        -------
        MostLikelyWorld
            As `lapis.map` returns it.

        Raises
        ------
        LapisError
            If the hard formulas contradict each other or the data.
        """
        names = {field.name for field in fields(MapOptions)} & vars(self._options).keys()
        given = {name: getattr(self._options, name) for name in names - {"method"}}
        with self._limits():
            return operations.map(self.model, self._database, MapOptions(**given), self._report)

    def close(self) -> None:
        """Free the memory of the session; it cannot be used any more."""
        self._is_open = False
        self._stack.close()
        self._live, self._history = None, []

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def check_weight(weight: object) -> None:
    """Raise unless a weight is a finite number."""
    if isinstance(weight, bool) or not isinstance(weight, Real) or not math.isfinite(weight):
        raise LapisError(
            f"a weight must be a finite number, not {weight!r}",
            code="option-value",
            hint="hard formulas are written with a final period in the model",
        )


def refuse_hard(rule: Rule, place: int) -> int:
    """Return the place of a rule; raise if it is hard."""
    if rule.hard:
        raise LapisError(
            f"the rule {rule.text!r} is hard: it has no weight",
            code="hard-rule",
            span=rule.span,
            hint="give it a weight in the model instead of its final period",
        )
    return place


def with_weight(
    model: Model, place: int, number: int | None, weight: float, domains: Mapping[str, Domain]
) -> Model:
    """Return a model with another weight of a rule, of all its weights or of one."""
    rule = model.rules[place]
    if number is None:
        changed = replace(rule, weight=float(weight), instance_weights=None, weight_by=None)
    else:
        types = dict(rule.variables)
        own = [domains[types[name]] for name in rule.plus]
        values = weights_of_rule(rule, own)
        values[number] = weight
        constants = tuple(product(*(domain.constants for domain in own)))
        changed = replace(
            rule, instance_weights=InstanceWeights(constants, tuple(values.tolist())),
            weight_by=None,
        )  # fmt: skip
    return model.with_rules((*model.rules[:place], changed, *model.rules[place + 1 :]))
