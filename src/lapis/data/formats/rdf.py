"""RDF triples as facts, and facts as triples, by rdflib.

    ex:Anna rdf:type ex:Person .     Person(Anna)
    ex:Anna ex:worksFor ex:Acme .    worksFor(Anna,Acme)
    ex:Anna ex:age 31 .              age(Anna,31)

The name of a predicate or a constant is the last part of its IRI, after # or /. Two IRIs with the
same last part get the prefix of their namespace (`ex_name` for predicates, `ex:name` for constants)
if the graph binds one to each, and are refused otherwise. Languages and datatypes of literals are
left out, so a literal and a resource may be the same constant. Blank nodes are constants that start
with `_:`, with canonical names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from lapis.data.database import TRUE, Database, Relation
from lapis.data.formats.build_database import GroundFact, encode_facts
from lapis.data.formats.facts import PREDICATE
from lapis.data.formats.graphs import left_out, no_edge
from lapis.errors import LapisError, issue_warnings
from lapis.runtime.text_files import read_error

if TYPE_CHECKING:
    import rdflib

IS_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://|[^\s/])[^\s<>\"{}|\\^`]*")
BLANK = "_:"


def from_rdf(
    source: str | Path | rdflib.Graph, format: str | None, names: Mapping[str, str], full: bool
) -> Database:
    package = import_rdflib()
    graph = source if isinstance(source, package.Graph) else parse_file(package, source, format)
    prefixes = {str(space): prefix for prefix, space in graph.namespaces()}
    if any(isinstance(part, package.BNode) for triple in graph for part in triple):
        graph = package.compare.to_canonical_graph(graph)  # the same names in every run
    triples = sorted(graph, key=lambda triple: [part.n3() for part in triple])
    is_class = package.RDF.type
    predicates = [o if p == is_class else p for _, p, o in triples]
    ends = [part for s, p, o in triples for part in ((s,) if p == is_class else (s, o))]
    of_predicate = name_predicates(predicates, names, prefixes)
    of_constant = name_constants(ends, names, prefixes, full)

    def facts() -> Iterator[GroundFact]:
        for subject, predicate, object in triples:
            first = of_constant[subject]
            if predicate == is_class:
                yield of_predicate[object], (first,), TRUE
            else:
                yield of_predicate[predicate], (first, of_constant[object]), TRUE

    return encode_facts(dict.fromkeys(facts()))


def parse_file(package: ModuleType, source: str | Path, format: str | None) -> rdflib.Graph:
    if not isinstance(source, str | Path):
        raise LapisError(
            f"a {type(source).__name__} is neither a file nor a graph of rdflib",
            code="data-rdf",
            hint="as in Database.from_rdf('people.ttl')",
        )
    path = Path(source)
    kind = format or package.util.guess_format(str(path))
    if kind is None:
        raise LapisError(
            f"{path}: the suffix is not one of RDF",
            code="data-rdf",
            hint="give the format, as in format='turtle'",
        )
    graph = package.Graph()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise read_error(path, error, "file") from None
    try:
        return graph.parse(data=text, format=kind, publicID=path.absolute().as_uri())
    except package.plugin.PluginException:
        raise LapisError(f"rdflib reads no format {kind!r}", code="data-rdf") from None
    except Exception as error:  # the parsers of the formats have no common error
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = " ".join(lines[:2]) or type(error).__name__
        raise LapisError(f"{path}: this is not {kind}: {reason}", code="data-rdf") from None


def name_predicates(
    found: Iterable[Any], names: Mapping[str, str], prefixes: Mapping[str, str]
) -> dict[Any, str]:
    """Return the name of each predicate and class."""
    chosen: dict[Any, str] = {}
    for term in dict.fromkeys(found):
        given = names.get(str(term))
        last = re.sub(r"\W", "_", given if given is not None else last_part(str(term)))
        chosen[term] = last if PREDICATE.fullmatch(last) else f"p_{last}"
    return tell_apart(chosen, names, prefixes, "_", "predicates")


def name_constants(
    found: Iterable[Any], names: Mapping[str, str], prefixes: Mapping[str, str], full: bool
) -> dict[Any, str]:
    """Return the constant of each subject and object."""
    chosen: dict[Any, str] = {}
    literals: dict[Any, str] = {}
    for term in dict.fromkeys(found):
        kind = type(term).__name__
        if kind == "Literal":
            literals[term] = str(term)
        elif kind == "BNode":
            chosen[term] = BLANK + str(term)
        else:
            text = str(term)
            chosen[term] = names.get(text, text if full else last_part(text))
    return literals | tell_apart(chosen, names, prefixes, ":", "constants")


def tell_apart(
    chosen: Mapping[Any, str],
    given: Mapping[str, str],
    prefixes: Mapping[str, str],
    between: str,
    what: str,
) -> dict[Any, str]:
    """Add prefixes to names that several IRIs have; raise if they are still the same."""
    alike: dict[str, list[Any]] = {}
    for term, name in chosen.items():
        alike.setdefault(name, []).append(term)
    found = dict(chosen)
    for name, terms in alike.items():
        for term in terms if len(terms) > 1 else ():
            space = str(term)[: len(str(term)) - len(last_part(str(term)))]
            if str(term) not in given and prefixes.get(space):
                found[term] = f"{prefixes[space]}{between}{name}"
    owner: dict[str, Any] = {}
    for term, name in found.items():
        other = owner.setdefault(name, term)
        if other != term:
            raise LapisError(
                f"the {what} {other} and {term} have the same name, {name}",
                code="data-rdf",
                hint=f"give one of them a name, as in names={{{str(term)!r}: 'Other'}}",
            )
    return found


def last_part(iri: str) -> str:
    """Return the text after the last # or / of an IRI.

    >>> last_part("http://example.org/people#Anna"), last_part("urn:isbn:0451450523")
    ('Anna', 'urn:isbn:0451450523')
    """
    return unquote(re.split(r"[#/]", iri.rstrip("#/"))[-1]) or iri


def to_rdf(
    database: Database, base: str, iris: Mapping[str, str], literals: Sequence[str]
) -> rdflib.Graph:
    package = import_rdflib()
    graph = package.Graph()
    graph.bind("", base)

    def resource(name: str) -> Any:  # noqa: ANN401  (a term of rdflib)
        if name.startswith(BLANK):
            return package.BNode(name.removeprefix(BLANK))
        if name in iris or IS_IRI.fullmatch(name):
            return package.URIRef(iris.get(name, name))
        return package.URIRef(base + quote(name, safe=""))

    def add(relation: Relation, row: tuple[str, ...]) -> None:
        predicate = resource(relation.predicate)
        subject = resource(row[0])
        if relation.arity == 1:
            graph.add((subject, package.RDF.type, predicate))
        else:
            as_literal = relation.predicate in literals
            value = package.Literal(row[1]) if as_literal else resource(row[1])
            graph.add((subject, predicate, value))

    for relation in database.relations.values():
        if relation.arity not in (1, 2) and relation.num_true:
            raise no_edge(relation, "RDF", "leave it out, or split it into binary predicates")
        for row in database.decode(relation, relation.true):
            add(relation, row)
    issue_warnings(left_out(database, "RDF"))
    return graph


def import_rdflib() -> ModuleType:
    try:
        import rdflib
        import rdflib.compare
        import rdflib.plugin
        import rdflib.util
    except ImportError:
        raise LapisError(
            "RDF needs rdflib, which is not installed",
            code="missing-package",
            hint="pip install 'lapis-mln[rdf]'",
        ) from None
    return rdflib
