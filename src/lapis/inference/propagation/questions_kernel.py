"""Clauses as questions to variables: does your state make me true?

The literals of one block in a clause are one question. Only positive ones: is one of these atoms
the true one? With a negative one, ¬a: is it any state but a? (Positive literals beside it add
nothing.) With two negative ones, or all atoms of an exactly-one block: always true.
"""

from __future__ import annotations

from lapis.runtime.kernels import entry, inner


@entry
def ask_questions(
    row_start, literal, variable_of_atom, variable_start, is_block, exactly_one, last_row,
    factor_start, question_start, question_literal, always_true,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Fill the CSR arrays rows → questions → literals; `last_row` is all −1."""
    questions, literals = 0, 0
    for row in range(len(row_start) - 1):
        for at in range(row_start[row], row_start[row + 1]):
            variable = variable_of_atom[abs(literal[at]) - 1]
            if last_row[variable] == row:
                continue
            last_row[variable] = row
            begin = literals
            if not is_block[variable]:
                question_literal[literals] = literal[at]
                literals += 1
            else:
                literals = _ask_block(
                    row_start, literal, row, at, variable_of_atom, question_literal, literals
                )
                size = variable_start[variable + 1] - variable_start[variable]
                if literals == begin or (
                    exactly_one[variable]
                    and question_literal[begin] > 0
                    and literals - begin == size
                ):
                    always_true[row] = True
            questions += 1
            question_start[questions] = literals
        factor_start[row + 1] = questions
    return questions, literals


@inner
def _ask_block(row_start, literal, row, first, variable_of_atom, question_literal, literals):  # type: ignore[no-untyped-def]
    """Write the literals of one block; none where the answer is always yes."""
    variable = variable_of_atom[abs(literal[first]) - 1]
    begin, negative = literals, 0
    for at in range(first, row_start[row + 1]):
        if variable_of_atom[abs(literal[at]) - 1] != variable:
            continue
        if literal[at] < 0:
            if negative == 0:
                question_literal[begin] = literal[at]
            negative += 1
        elif negative == 0:
            question_literal[literals] = literal[at]
            literals += 1
    if negative == 0:
        return literals
    return begin + 1 if negative == 1 else begin
