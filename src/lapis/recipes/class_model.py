"""The model of a collective classification, its weights, and its probabilities.

    HasWord(x, +w) => Topic(x, +t)                      a weight for each feature and class
    HasWordNear(x, +w) => Topic(x, +t)                  the same of features of linked items
    Cites(x, y) ^ Topic(x, +t) ^ Topic(y, +u)           which classes are linked, by direction
    Cites(x, y) ^ CitesCount(x, +m) ^ CitesCount(y, +n) ^ Topic(x, t) ^ Topic(y, t)
                                                        how much a link of items of one class counts
    Topic(x, +t)                                        how common a class is

The fourth rule corrects a known fault of such models. The neighbours of an item are dependent, so
that a link of an item with many links says less than the only link of another. With one weight
for all links the probabilities of well-connected items are too extreme.

Weights are those of the labelled items and the links among them, by the conditional likelihood of
the classes of some of them given features, links and the other classes (`SHOWN`), as in use: some
neighbours are known there and others are not. If all classes are predicted and none is shown, the
likelihood of a model with links alone has several modes, between which chains do not move. The
pseudo-likelihood shows all neighbours, and neglects features. Items without a label are left out.

The width of the Gaussian prior of feature weights is chosen by cross-validation on the labelled
items, by the features alone, where sums are exact; then that of features of linked items, which may
be left out, and that of link weights, with all. Features of linked items help where they say more
than the classes of the linked items, most of which are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.data.database import TRUE, Database
from lapis.data.formats.build_database import encode_facts
from lapis.language.model import Model
from lapis.language.names import format_constant
from lapis.language.resolve import parse_model
from lapis.learning.objectives.priors import Prior
from lapis.recipes.item_tables import FeaturePairs, ItemTables, add_near_features
from lapis.runtime.progress import Progress, Report, report_progress

if TYPE_CHECKING:
    from lapis.learning.fit import Fit
    from lapis.results.answer import Answer

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the prior of feature weights, to choose from
NEAR_WIDTHS = (0.05, 0.1, 0.2, 0.4)  # the same of features of linked items
LINK_WIDTHS = (0.2, 0.5, 1.0)  # of the prior of link weights
CLASS_WIDTH = 5.0
SHOWN = (0.5, 0.7)  # shares of the labels that are evidence, one for each copy of the items
ENOUGH = 500  # held-out items that suffice to choose widths; further folds are left out
MAX_ITERATIONS = 60  # of sampled likelihoods, which have no exact end


@dataclass(frozen=True)
class ClassSettings:
    """How weights are learned and classes inferred."""

    prior: float | None = None  # width of the prior of feature weights; None: cross-validation
    near_prior: float | None = None  # the same of features of linked items; 0: without them
    link_prior: float | None = None  # the same of link weights
    folds: int = 3  # of the cross-validation
    max_iterations: int | None = None
    precision: float = 0.01
    method: str = "auto"
    time_limit: float | None = None
    max_memory: int | None = None
    seed: int = 0
    progress: Report | None = None


class Widths(NamedTuple):
    """The widths of the prior."""

    feature: float
    near: float  # of features of linked items; 0 if there are none
    link: float


class PriorScore(NamedTuple):
    """The score of widths of the prior on held-out training items."""

    widths: Widths
    with_links: bool
    cll: float  # mean log P(the item's class)


class Trained(NamedTuple):
    """Weights, and how the prior was chosen."""

    fit: Fit
    widths: Widths
    scores: tuple[PriorScore, ...]  # empty if the widths were given
    tables: ItemTables  # with the features of the model


def write_model(tables: ItemTables) -> str:
    """Write declarations and rules without weights.

    >>> tables = ItemTables(("A",), ("x", "y"), np.array([0]))
    >>> print(write_model(tables))
    class = {"x", "y"}
    Class(item, class!)
    Class(x, +c)
    """
    item, target = tables.item_type, tables.target
    classes = ", ".join(map(format_constant, tables.classes))
    declared = [f"{tables.class_type} = {{{classes}}}", f"{target}({item}, {tables.class_type}!)"]
    rules = []
    for own in tables.features:
        declared.append(f"{own.predicate}({item}, {own.type_name})")
        rules.append(f"{own.predicate}(x, +f) => {target}(x, +c)")
    for links in tables.links:
        name, count = links.predicate, links.count_predicate
        declared += [f"{name}({item}, {item})", f"{count}({item}, {count.lower()})"]
        rules += [
            f"{name}(x, y) ^ {target}(x, +c) ^ {target}(y, +d)",
            f"{name}(x, y) ^ {count}(x, +m) ^ {count}(y, +n) ^ {target}(x, c) ^ {target}(y, c)",
        ]
    return "\n".join([*declared, *rules, f"{target}(x, +c)"])


def learn_classes(tables: ItemTables, widths: Widths, settings: ClassSettings) -> Fit:
    """Learn the weights from the labelled items.

    With links there is a copy of the items for each share in `SHOWN`, with that share of labels as
    evidence. Copies are worlds with common weights.
    """
    from lapis.learning.learn import learn_weights
    from lapis.problem.task import open_inputs
    from lapis.registry.options import LearnOptions

    known = tables.take(tables.is_labelled)
    copies = [np.zeros(len(known.items), bool)]
    if known.links:
        copies = draw_shown(len(known.items), np.random.default_rng(settings.seed))
    worlds = [hide_features(known, shown).facts() for shown in copies]
    evidence = [class_facts(known, shown) for shown in copies]
    times = sum(float((~shown).mean()) for shown in copies)  # that an item is predicted
    model = parse_model(write_model(tables), "classify")
    inputs = open_inputs(model, worlds, quiet=True)
    options = LearnOptions(
        query=(tables.target,),
        prior=rule_prior(known, widths, times),
        max_iterations=settings.max_iterations or (MAX_ITERATIONS if tables.links else None),
        time_limit=settings.time_limit,
        max_memory=settings.max_memory,
        random_state=settings.seed,
    )
    return learn_weights(
        inputs.model,
        inputs.databases,
        (tables.target,),
        options,
        shown=evidence,
        progress=settings.progress,
    )


def draw_shown(num_items: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Draw the items whose labels are evidence, bool[num_items], for each share in `SHOWN`.

    Every item is predicted in at least one copy.
    """
    copies = [generator.random(num_items) < share for share in SHOWN]
    always = np.flatnonzero(np.all(copies, axis=0))
    for number, shown in enumerate(copies):
        shown[always[number :: len(copies)]] = False
    return copies


def hide_features(tables: ItemTables, shown: np.ndarray) -> ItemTables:
    """Return the tables without the features of items whose class is evidence, bool[num_items].

    They make no difference to the other items.
    """

    def take(own: FeaturePairs) -> FeaturePairs:
        kept = ~shown[own.item]
        return replace(own, item=own.item[kept], feature=own.feature[kept])

    return replace(tables, features=tuple(map(take, tables.features)))


def class_facts(tables: ItemTables, chosen: np.ndarray) -> Database:
    """Return the facts of the classes of some items, bool[num_items]."""
    items = np.flatnonzero(chosen).tolist()
    return encode_facts(
        (tables.target, (tables.items[i], tables.classes[tables.label[i]]), TRUE) for i in items
    )


def rule_prior(known: ItemTables, wanted: Widths, times: float) -> Prior:
    """Return a Gaussian prior with a width for each weight, in the order of `write_model`.

    Each item is predicted `times` times; the prior is as strong as if it were once.
    """
    num_classes = len(known.classes)
    widths: list[float] = []
    for own in known.features:
        width = wanted.near if own.is_near else wanted.feature
        widths += [width] * (len(np.unique(own.feature)) * num_classes)
    for links in known.links:
        levels = len(np.unique(links.level[links.level > 0]))
        widths += [wanted.link] * (num_classes**2 + levels**2)
    widths += [CLASS_WIDTH] * num_classes
    return Prior("gaussian", np.array(widths) / np.sqrt(times))


def infer_classes(
    model: Model, tables: ItemTables, settings: ClassSettings
) -> tuple[np.ndarray, Answer]:
    """Infer the classes of items without a label, given the others.

    Returns float64[num_unlabelled, num_classes], in the order of the items, and the answer.
    """
    from lapis.inference.marginals import InferenceOptions
    from lapis.inference.worlds import infer_task
    from lapis.problem.task import build_task

    task = build_task(model, tables.facts(), [tables.target])
    options = InferenceOptions(
        precision=settings.precision,
        time_limit=settings.time_limit,
        max_memory=settings.max_memory,
        seed=settings.seed,
        progress=settings.progress,
    )
    answer = infer_task(task, settings.method, options)
    return class_matrix(answer, tables), answer


def class_matrix(answer: Answer, tables: ItemTables) -> np.ndarray:
    """float64[num_unlabelled, num_classes], the probabilities of an answer."""
    hidden = [tables.items[i] for i in np.flatnonzero(~tables.is_labelled).tolist()]
    row = {name: number for number, name in enumerate(hidden)}
    column = {name: number for number, name in enumerate(tables.classes)}
    found = np.zeros((len(hidden), len(tables.classes)))
    (group,) = answer.asked.groups
    items, classes = group.domains
    row_of = np.array([row.get(name, -1) for name in items.constants], np.int64)
    column_of = np.array([column[name] for name in classes.constants], np.int64)
    found[row_of[group.codes[:, 0]], column_of[group.codes[:, 1]]] = answer.probability
    total = found.sum(axis=1, keepdims=True)
    return np.divide(found, total, out=np.full_like(found, 1 / len(column)), where=total > 0)


def train(tables: ItemTables, settings: ClassSettings) -> Trained:
    """Choose the widths of the prior that are not given, and learn from all labelled items."""
    chosen = choose_widths(tables, settings)
    tables = chosen.tables
    fit = learn_classes(tables, chosen.widths, settings)
    return Trained(fit, chosen.widths, tuple(chosen.scores), tables)


class Choice(NamedTuple):
    """The widths so far, and the tables with the features that have a width."""

    widths: Widths
    scores: list[PriorScore]
    tables: ItemTables


def choose_widths(tables: ItemTables, settings: ClassSettings) -> Choice:
    tables = tables.without(near=True)
    known = tables.take(tables.is_labelled)
    parts = deal_folds(known.label, settings.folds, settings.seed)
    sizes = np.cumsum([part.sum() for part in parts])
    parts = parts[: int(np.searchsorted(sizes, ENOUGH)) + 1]
    scores: list[PriorScore] = []
    given = Widths(settings.prior or WIDTHS[1], 0.0, settings.link_prior or LINK_WIDTHS[1])
    if settings.prior is None and tables.features:
        tried = [given._replace(feature=width) for width in WIDTHS]
        alone = known.without(near=True, links=True)
        scores += score_widths(alone, parts, tried, settings)
        given = best_widths(scores)
    if tables.links and tables.features and settings.near_prior != 0:
        wider = add_near_features(tables)
        near = wider.take(wider.is_labelled).without(links=True)
        if settings.near_prior is not None:
            tables, given = wider, given._replace(near=settings.near_prior)
        elif len(wider.features) > len(tables.features):
            if not scores:
                scores += score_widths(known.without(links=True), parts, [given], settings)
            least = max(score.cll for score in scores)
            tried = [given._replace(near=width) for width in NEAR_WIDTHS]
            found = score_widths(near, parts, tried, settings)
            scores += found
            if max(score.cll for score in found) > least:
                tables, given = wider, best_widths(found)
    if settings.link_prior is None and tables.links:
        tried = [given._replace(link=width) for width in LINK_WIDTHS]
        found = score_widths(tables.take(tables.is_labelled), parts, tried, settings)
        scores, given = [*scores, *found], best_widths(found)
    return Choice(given, scores, tables)


def best_widths(scores: Sequence[PriorScore]) -> Widths:
    return max(scores, key=lambda score: score.cll).widths


def score_widths(
    known: ItemTables, parts: Sequence[np.ndarray], tried: Sequence[Widths], settings: ClassSettings
) -> list[PriorScore]:
    """Score widths on the held-out items of each part, bool[num_items], given the other labels.

    Widths grow while the score does: a wider prior is not tried after one that lost.
    """
    scores: list[PriorScore] = []
    for number, widths in enumerate(tried):
        text = f"widths {widths.feature:g}, {widths.near:g}, {widths.link:g}"
        report_progress(settings.progress, Progress("prior", number, len(tried), text=text))
        cll = held_out_cll(known, parts, widths, settings)
        scores.append(PriorScore(widths, bool(known.links), cll))
        if len(scores) > 1 and cll < scores[-2].cll:
            break
    return scores


def held_out_cll(
    known: ItemTables, parts: Sequence[np.ndarray], widths: Widths, settings: ClassSettings
) -> float:
    total, number = 0.0, 0
    quiet = replace(settings, progress=None)
    for held_out in parts:
        shown = known.hide_labels(held_out)
        fit = learn_classes(shown, widths, quiet)
        probability, _ = infer_classes(fit.model, shown, quiet)
        truth = known.label[held_out]
        chosen = probability[np.arange(len(truth)), truth]
        total += float(np.log(np.maximum(chosen, 1e-12)).sum())
        number += len(truth)
    return total / max(1, number)


def deal_folds(label: np.ndarray, folds: int, seed: int) -> list[np.ndarray]:
    """Deal labelled items to folds, each class evenly; return bool[num_items] for each fold.

    A class that a fold would leave without a training item stays in training.
    """
    generator = np.random.default_rng(seed)
    fold = np.full(len(label), -1)
    start = 0
    for number in np.unique(label[label >= 0]):
        members = generator.permutation(np.flatnonzero(label == number))
        if len(members) > 1:
            fold[members] = (start + np.arange(len(members))) % folds
            start += len(members)
    return [fold == number for number in range(folds) if (fold == number).any()]
