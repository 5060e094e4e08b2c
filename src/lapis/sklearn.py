"""A classifier with the interface of scikit-learn (`lapis-mln[sklearn]`).

A row is an item; its columns are features. The model is that of `lapis.recipes.classify`:

    Feature(x, +f) => Class(x, +c)                       a weight for each feature and class
    Linked(x, y) ^ Class(x, +c) ^ Class(y, +d), …        with `links`, by the labels of the index

A column of numbers has a feature for each threshold that a value reaches (`levels`). With a model
of the user, each column is a predicate of the row instead: `Age(row, 31)`, or `Smokes(row)` for a
column of truths.

Linked rows are classified jointly. Rows of `fit` keep their labels as evidence for the rows that
`predict` gets, except those that are among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lapis.data.binding import merge
from lapis.data.database import FALSE, TRUE, UNKNOWN, Database
from lapis.data.formats.build_database import GroundFact, encode_facts
from lapis.data.formats.graphs import as_constant
from lapis.errors import LapisError, check_word
from lapis.language.model import Model
from lapis.recipes.class_model import ClassSettings, infer_classes, train
from lapis.recipes.item_tables import (
    NO_CLASS,
    ItemTables,
    as_name,
    code_column,
    is_missing,
    join_columns,
    new_links,
)

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError:
    raise LapisError(
        "LapisClassifier needs scikit-learn, which is not installed",
        code="missing-package",
        hint="pip install 'lapis-mln[sklearn]'",
    ) from None

if TYPE_CHECKING:
    from lapis.results.answer import Answer

LINKED = "Linked"


class LapisClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """A Markov logic classifier of rows, alone or linked to each other.

    Parameters
    ----------
    prior
        Width of the Gaussian prior of feature weights, or None to choose it by cross-validation.
    levels
        Parts of similar size that a column of numbers is cut into.
    links
        Pairs of linked rows, by the labels of the index of X (a frame), or by row numbers of X
        where X has no index. Labels that X does not have are ignored.
    model
        A model of one's own, or its path; its columns are predicates of the rows.
    target
        Predicate of `model` to predict: `Class(row, class!)`, or `Smokes(row)` for two classes.
    data
        Further facts for `model`, such as links.
    method
        Name of a method of inference.
    max_iterations
        Upper limit of the iterations of learning.
    random_state
        Seed of everything random, or a generator of numpy.

    Attributes
    ----------
    classes_
        The classes.
    fit_
        The `lapis.Fit` of the weights.
    model_
        The model with its weights.
    prior_
        Width of the prior.
    n_features_in_
        Number of columns.

    Examples
    --------
    >>> from lapis.sklearn import LapisClassifier
    >>> ages, groups = [[10], [15], [40], [60]], ["young", "young", "old", "old"]
    >>> classifier = LapisClassifier().fit(ages, groups)
    >>> classifier.predict([[12], [50]]).tolist()
    ['young', 'old']
    """

    def __init__(
        self,
        prior: float | None = 1.0,
        *,
        levels: int = 8,
        links: object = None,
        model: Model | str | Path | None = None,
        target: str | None = None,
        data: Database | None = None,
        method: str = "auto",
        max_iterations: int | None = None,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.prior = prior
        self.levels = levels
        self.links = links
        self.model = model
        self.target = target
        self.data = data
        self.method = method
        self.max_iterations = max_iterations
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> LapisClassifier:  # noqa: ANN401  (of scikit-learn)
        """Learn weights from rows and their classes.

        Parameters
        ----------
        X
            A row for each item: an array, a sparse matrix or a frame.
        y
            The class of each row.

        Returns
        -------
        LapisClassifier
            The classifier itself.

        Raises
        ------
        LapisError
            If a parameter is wrong.
        ValueError
            If X or y is not what scikit-learn accepts, or there is one class only.
        """
        self._check_parameters()
        rows, y = self._read_training(X, y)
        check_classification_targets(y)
        self.classes_, label = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"Classifier can't train when only one class is present: {self.classes_[0]!r}"
            )
        self._label = label.astype(np.int64)
        if self.model is None:
            self._fit_columns(rows)
        else:
            self._fit_model(rows)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: ANN401
        """Infer the probability of each class for each row.

        Parameters
        ----------
        X
            Rows with the columns of `fit`.

        Returns
        -------
        numpy.ndarray
            float64[num_rows, num_classes], classes in the order of `classes_`.

        Raises
        ------
        ValueError
            If X is not what scikit-learn accepts.
        """
        return self._infer(X)[0]

    def predict(self, X: Any) -> np.ndarray:  # noqa: ANN401
        """Return the likeliest class of each row.

        Parameters
        ----------
        X
            Rows with the columns of `fit`.

        Returns
        -------
        numpy.ndarray
            The classes.

        Raises
        ------
        ValueError
            If X is not what scikit-learn accepts.
        """
        probability = self.predict_proba(X)
        found: np.ndarray = self.classes_[probability.argmax(axis=1)]
        return found

    def answer(self, X: Any) -> Answer:  # noqa: ANN401
        """Return the answer behind `predict_proba`, with its method, errors and caveats.

        Parameters
        ----------
        X
            Rows with the columns of `fit`.

        Returns
        -------
        Answer
            A probability for each atom of the target.

        Raises
        ------
        ValueError
            If X is not what scikit-learn accepts.
        """
        return self._infer(X)[1]

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401  (a class of scikit-learn)
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _read(self, X: Any) -> Rows:  # noqa: ANN401
        """Return the rows of X, checked by scikit-learn."""
        return read_rows(validate_data(self, X, reset=False, **checks_of(X)), X)

    def _read_training(self, X: Any, y: Any) -> tuple[Rows, np.ndarray]:  # noqa: ANN401
        """Return the rows of X and their classes, checked by scikit-learn."""
        checked, y = validate_data(self, X, y, **checks_of(X))
        y = column_or_1d(y, warn=True)
        check_consistent_length(checked, y)
        return read_rows(checked, X), y

    def _fit_columns(self, rows: Rows) -> None:
        self._codings = tuple(
            code_column(name, column, self.levels) for name, column in rows.columns.items()
        )
        tables = self._tables(rows, self._label)
        self._training = tables
        found = train(tables, self._settings())
        self.fit_, self.model_, self.prior_ = found.fit, found.fit.model, found.widths.feature

    def _fit_model(self, rows: Rows) -> None:
        from lapis.learning.learn import learn_weights
        from lapis.model_files import read
        from lapis.problem.task import open_inputs
        from lapis.registry.options import LearnOptions

        model = self.model if isinstance(self.model, Model) else read(str(self.model))
        target = str(self.target)
        check_word("predicate", target, model.predicates, code="unknown-predicate")
        if not 1 <= model.predicates[target].arity <= 2:
            raise LapisError(
                f"the target has one or two arguments, a row and its class, and {target} has "
                f"{model.predicates[target].arity}",
                code="option-value",
            )
        self._own = model
        inputs = open_inputs(model, self._model_facts(rows, np.arange(len(self._label))))
        self.prior_ = 1.0 if self.prior is None else self.prior
        options = LearnOptions(
            query=(target,),
            prior=f"gaussian:{self.prior_:g}",
            max_iterations=self.max_iterations,
            random_state=self._settings().seed,
        )
        self._training_rows = rows
        self.fit_ = learn_weights(inputs.model, inputs.databases, (target,), options)
        self.model_ = self.fit_.model

    def _infer(self, X: Any) -> tuple[np.ndarray, Answer]:  # noqa: ANN401
        check_is_fitted(self)
        rows = self._read(X)
        if self.model is not None:
            return self._infer_model(rows)
        tables = self._tables(rows, np.full(len(rows.names), NO_CLASS))
        if self.links is not None:
            new = set(rows.names)
            kept = np.array([name not in new for name in self._training.items], bool)
            tables = with_links(append_items(tables, self._training.take(kept)), self.links)
        return infer_classes(self.model_, tables, self._settings())

    def _infer_model(self, rows: Rows) -> tuple[np.ndarray, Answer]:
        """Infer with a model of the user; rows of training are evidence."""
        from lapis.inference.marginals import InferenceOptions
        from lapis.learning.predict import predict_records

        new = set(rows.names)
        old = np.array([name not in new for name in self._training_rows.names], bool)
        facts = [
            self._model_facts(rows, None),
            self._model_facts(self._training_rows.take(old), np.flatnonzero(old)),
        ]
        options = InferenceOptions(seed=self._settings().seed)
        answer = predict_records(
            self.model_,
            self.fit_.constants,
            merge(facts),
            (str(self.target),),
            self.method,
            options,
        )
        return self._read_answer(answer, rows), answer

    def _read_answer(self, answer: Answer, rows: Rows) -> np.ndarray:
        """float64[num_rows, num_classes]; a row without an atom of the target has equal ones."""
        row = {name: number for number, name in enumerate(rows.names)}
        size = len(self.classes_)
        found = np.full((len(row), size), 0.0)
        kind = {as_constant(value): number for number, value in enumerate(self.classes_)}
        for group, start in zip(answer.asked.groups, answer.asked.offset.tolist(), strict=False):
            names = [domain.names[group.codes[:, k]] for k, domain in enumerate(group.domains)]
            own = answer.probability[start : start + len(group)].tolist()
            for place, probability in enumerate(own):
                at = row.get(names[0][place])
                if at is None:
                    continue
                if len(names) == 1:
                    found[at] = 1 - probability, probability
                elif names[1][place] in kind:
                    found[at, kind[names[1][place]]] = probability
        total = found.sum(axis=1, keepdims=True)
        return np.divide(found, total, out=np.full_like(found, 1 / size), where=total > 0)

    def _model_facts(self, rows: Rows, labelled: np.ndarray | None) -> Database:
        """Return the facts of rows, with their classes int64[num_rows] of training, or unknown."""
        predicate = self._own.predicates[str(self.target)]
        facts = list(column_facts(rows))
        for number, name in enumerate(rows.names):
            if labelled is None:
                facts += [(predicate.name, (name,), UNKNOWN)] if predicate.arity == 1 else []
                continue
            label = int(self._label[labelled[number]])
            if predicate.arity == 2:
                facts.append((predicate.name, (name, as_constant(self.classes_[label])), TRUE))
            elif len(self.classes_) == 2:
                facts.append((predicate.name, (name,), TRUE if label else FALSE))
            else:
                raise ValueError(f"{predicate.name} has two values, y has {len(self.classes_)}")
        declared = {predicate.types[0]: tuple(rows.names)}
        found = [encode_facts(facts, declared)]
        if self.data is not None:
            found.append(self.data)
        if self.links is not None:
            pairs = read_pairs(self.links)
            found.append(encode_facts((LINKED, pair, TRUE) for pair in pairs))
        return merge(found)

    def _tables(self, rows: Rows, label: np.ndarray) -> ItemTables:
        features = join_columns(self._codings, rows.columns)
        tables = ItemTables(
            rows.names,
            tuple(as_constant(value) for value in self.classes_),
            label,
            item_type="row",
            features=(features,) if features.names else (),
        )
        return tables if self.links is None else with_links(tables, self.links)

    def _check_parameters(self) -> None:
        if self.prior is not None and not self.prior > 0:
            raise LapisError(
                f"prior must be a number above 0 or None, not {self.prior!r}", code="option-value"
            )
        if not isinstance(self.levels, int) or self.levels < 2:
            raise LapisError(
                f"levels must be a whole number of at least 2, not {self.levels!r}",
                code="option-value",
            )
        if (self.model is None) != (self.target is None):
            raise LapisError(
                "model and target belong together: the target is a predicate of the model",
                code="option-value",
            )

    def _settings(self) -> ClassSettings:
        seed = self.random_state
        if not isinstance(seed, int):
            if isinstance(seed, np.random.Generator):
                seed = int(seed.integers(1 << 31))
            else:
                seed = int(check_random_state(seed).randint(1 << 31))
        return ClassSettings(
            prior=self.prior,
            near_prior=0.0,
            max_iterations=self.max_iterations,
            method=self.method,
            seed=seed,
        )


class Rows(NamedTuple):
    """Rows of X by columns."""

    names: tuple[str, ...]
    columns: Mapping[str, np.ndarray]  # object or numbers [num_rows]

    def take(self, kept: np.ndarray) -> Rows:
        """Return some rows, bool[num_rows]."""
        names = tuple(name for name, is_kept in zip(self.names, kept, strict=True) if is_kept)
        return Rows(names, {name: column[kept] for name, column in self.columns.items()})


def checks_of(X: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the checks of X; frames keep the types of their columns, and missing values."""
    if hasattr(X, "columns") and not hasattr(X, "toarray"):
        return {"skip_check_array": True}
    return {"accept_sparse": "csr", "dtype": None}


def read_rows(checked: Any, given: Any) -> Rows:  # noqa: ANN401  (an array, a matrix or a frame)
    """Read the columns of X after the checks of scikit-learn; `given` has the index."""
    index = getattr(given, "index", None)
    if index is None or callable(index):
        index = range(checked.shape[0])
    names = tuple(map(as_constant, index))
    if len(set(names)) < len(names):
        raise LapisError(
            "two rows of X have the same label in its index", code="recipe-items",
            hint="make it unique, as by X.reset_index()",
        )  # fmt: skip
    if hasattr(checked, "columns"):
        if not checked.shape[0] or not checked.shape[1]:
            raise ValueError(
                f"Found array with {checked.shape[0]} sample(s) and {checked.shape[1]} feature(s)"
            )
        return Rows(names, {str(name): np.asarray(checked[name]) for name in checked.columns})
    if hasattr(checked, "tocsc"):  # a sparse matrix has truths: whether a cell is not 0
        matrix = checked.tocsc()
        columns = {}
        for number in range(matrix.shape[1]):
            has = np.zeros(matrix.shape[0], bool)
            has[matrix.indices[matrix.indptr[number] : matrix.indptr[number + 1]]] = True
            columns[f"x{number}"] = has
        return Rows(names, columns)
    columns = {f"x{number}": checked[:, number] for number in range(checked.shape[1])}
    if checked.dtype.kind == "O":
        columns = {name: plain_column(column) for name, column in columns.items()}
    return Rows(names, columns)


def plain_column(column: np.ndarray) -> np.ndarray:
    """Return a column of objects, with numbers as such; raise TypeError for other objects."""
    wrong = [value for value in column if not isinstance(value, str | bool | Real | None)]
    if wrong:
        raise TypeError(
            f"argument must be a string or a real number, not {type(wrong[0]).__name__!r}"
        )
    return column


def column_facts(rows: Rows) -> Iterator[GroundFact]:
    """Yield a fact for each cell: `Age(row, 31)`, or `Smokes(row)` for a column of truths."""
    for name, column in rows.columns.items():
        predicate = as_name(name)
        for row, value in zip(rows.names, column.tolist(), strict=True):
            if isinstance(value, bool):
                if value:
                    yield predicate, (row,), TRUE
            elif not is_missing(value):
                yield predicate, (row, as_constant(value)), TRUE


def read_pairs(links: object) -> list[tuple[str, str]]:
    """Return pairs of the names of linked rows, from pairs, an array, a frame or a graph."""
    if hasattr(links, "edges"):
        links = list(links.edges())
    elif hasattr(links, "to_numpy"):
        links = links.to_numpy().tolist()
    elif isinstance(links, np.ndarray):
        links = links.tolist()
    if not isinstance(links, Iterable):
        raise LapisError(
            f"links must be pairs of rows, not a {type(links).__name__}", code="option-value"
        )
    pairs = [tuple(map(as_constant, pair)) for pair in links]
    wrong = next((pair for pair in pairs if len(pair) != 2), None)
    if wrong is not None:
        raise LapisError(f"a link has two ends, not {len(wrong)}: {wrong}", code="option-value")
    return [(pair[0], pair[1]) for pair in pairs]


def with_links(tables: ItemTables, links: object) -> ItemTables:
    """Return the tables with the links among their items."""
    number = {name: place for place, name in enumerate(tables.items)}
    known = [(number[a], number[b]) for a, b in read_pairs(links) if a in number and b in number]
    pairs = np.array(known, np.int64).reshape(-1, 2)
    return replace(tables, links=(new_links(LINKED, pairs, len(number)),))


def append_items(first: ItemTables, second: ItemTables) -> ItemTables:
    """Return the items of both tables, which have the same features, without links."""
    start = len(first.items)
    features = tuple(
        replace(
            own,
            item=np.concatenate([own.item, other.item + start]),
            feature=np.concatenate([own.feature, other.feature]),
        )
        for own, other in zip(first.features, second.features, strict=True)
    )
    return replace(
        first,
        items=first.items + second.items,
        label=np.concatenate([first.label, second.label]),
        features=features,
        links=(),
    )
