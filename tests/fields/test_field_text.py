"""Fields as text: printing and parsing are inverse, and errors have locations."""

from __future__ import annotations

import pytest
from field_worlds import field_texts
from hypothesis import given
from hypothesis import strategies as st

from lapis.errors import LapisError
from lapis.fields.field_text import parse_field, print_field

DECLARED = "Smokes(person)\nFriends(person, person)\n"


@given(field_texts())
def test_what_is_printed_is_parsed_back(text: str) -> None:
    field = parse_field(text)
    assert parse_field(print_field(field)) == field
    assert print_field(parse_field(print_field(field))) == print_field(field)


def test_marks_constants_and_comparisons_are_kept() -> None:
    text = DECLARED + 'root:\n @fixed -1e-05 Friends(x, "New York")\n 0.1 x != y\n 3 Smokes(y)\n'
    field = parse_field(text)
    assert field.fixed.tolist() == [True, False, False]
    assert field.weights.tolist() == [-1e-05, 0.1, 3.0]
    assert field.declarations.types["person"] == ("New York",)
    assert parse_field(print_field(field)) == field


MISTAKES = {
    "cycle": (
        "root:\n 1 a(x)\na(x):\n 2 b(x)\nb(x):\n 1 a(x)\n",
        """f.rrf:8:4: parfeatures form a cycle: a → b → a
     1 a(x)
       ^^^^""",
    ),
    "unknown predicate": (
        "root:\n 1 Smoks(x)\n",
        """f.rrf:4:4: unknown predicate or parfeature 'Smoks'
     1 Smoks(x)
       ^^^^^^^^
    did you mean 'Smokes', declared at f.rrf:1:1?""",
    ),
    "unbound parameter": (
        "root:\n 1 a(x, y)\na(x, y):\n 1 Smokes(x)\n",
        """f.rrf:5:6: no child of 'a' uses the parameter 'y'
    a(x, y):
         ^
    remove the parameter: the parfeature does not depend on it""",
    ),
    "arity": (
        "root:\n 1 Smokes(x, y)\n",
        """f.rrf:4:4: 'Smokes' takes 1 argument, not 2
     1 Smokes(x, y)
       ^^^^^^^^^^^^""",
    ),
    "type clash": (
        "Owns(person, thing)\nroot:\n 1 f(y)\nf(y):\n 1 Owns(x, y)\n 1 Smokes(y)\n",
        """f.rrf:8:4: variable 'y' is used with two types, 'thing' and 'person'
     1 Smokes(y)
       ^^^^^^^^^
f.rrf:7:4: used as a 'thing' here
     1 Owns(x, y)
       ^^^^^^^^^^""",
    ),
    "untyped variable": (
        "root:\n 1 x = y\n",
        """f.rrf:3:1: cannot infer the type of 'x' in 'root'
    root:
    ^^^^
    use it in an atom of a declared predicate
f.rrf:3:1: cannot infer the type of 'y' in 'root'
    root:
    ^^^^
    use it in an atom of a declared predicate""",
    ),
    "no root": (
        "a(x):\n 1 Smokes(x)\n",
        """the field has no root
    add a line 'root:' and its children, which define the distribution""",
    ),
    "root with parameters": (
        "root(x):\n 1 Smokes(x)\n",
        """f.rrf:3:1: the root must not have parameters
    root(x):
    ^^^^^^^""",
    ),
    "same name": (
        "root:\n 1 Smokes(x)\nSmokes(x):\n 1 Friends(x, y)\n",
        """f.rrf:5:1: a predicate 'Smokes' already exists
    Smokes(x):
    ^^^^^^^^^
f.rrf:1:1: declared here
    Smokes(person)
    ^^^^^^^^^^^^^^""",
    ),
    "parameter twice": (
        "root:\n 1 a(x, x)\na(x, x):\n 1 Smokes(x)\n",
        """f.rrf:5:6: parameter 'x' occurs twice
    a(x, x):
         ^""",
    ),
    "unused": (
        "root:\n 1 Smokes(x)\na(x):\n 1 Smokes(x)\n",
        """f.rrf:5:1: parfeature 'a' is unused: the root does not reach it
    a(x):
    ^^^^
    make it a child of the root or of another parfeature, or remove it""",
    ),
    "formula": (
        "root:\n 1 Smokes(x) ^ Smokes(y)\n",
        """f.rrf:4:4: a child must be an atom, a parfeature or a comparison, not a formula
     1 Smokes(x) ^ Smokes(y)
       ^^^^^^^^^^^^^^^^^^^^^
    write a parfeature for each connective, or convert a model by 'lapis field from'""",
    ),
    "no weight": (
        "root:\n Smokes(x)\n",
        """f.rrf:4:2: unexpected text around the child: expected a weight and a target
     Smokes(x)
     ^^^^^^^^^
    write for example '-1.5 Smokes(x)'""",
    ),
    "plus": (
        "root:\n 1 Smokes(+x)\n",
        """f.rrf:4:4: arguments of a child must be variables or constants
     1 Smokes(+x)
       ^^^^^^^^^^
    write a function as a predicate: Mother(x, y), where y is the mother of x""",
    ),
    "header": (
        "Root(X):\n 1 Smokes(x)\n",
        """f.rrf:3:1: expected the name and the parameters of a parfeature
    Root(X):
    ^^^^^^^
    write for example 'lonely(x):', with parameters in lower case
f.rrf:4:2: expected a declaration of a type, a predicate or a function
     1 Smokes(x)
     ^^^^^^^^^^^
    weights belong to the children of a parfeature, below a line like 'root:'""",
    ),
    "function": (
        "person Mother(person)\nroot:\n 1 Smokes(Mother(x))\n",
        """f.rrf:5:4: arguments of a child must be variables or constants
     1 Smokes(Mother(x))
       ^^^^^^^^^^^^^^^^^
    write a function as a predicate: Mother(x, y), where y is the mother of x""",
    ),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_mistakes_are_located(kind: str) -> None:
    text, message = MISTAKES[kind]
    with pytest.raises(LapisError) as found:
        parse_field(DECLARED + text, "f.rrf")
    assert str(found.value) == message


PIECES = ("", ":", "(", ")", "\n", " root:", "x", "=", ",", "1", "@", "f0", "P")


@given(field_texts(), st.data())
def test_broken_text_is_refused_with_a_message(text: str, data: st.DataObject) -> None:
    """Damaged text is a field, or raises a LapisError."""
    place = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 12))
    put = data.draw(
        st.sampled_from(["", ":", "(", ")", "\n", " root:", "x", "=", ",", "1", "@", "f0", "P"])
    )
    try:
        parse_field(text[:place] + put + text[place + length :])
    except LapisError as error:
        assert str(error)  # noqa: PT017
