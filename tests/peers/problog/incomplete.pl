% The heads of a disjunction need not add up to one; the rest is neither.
0.2::left; 0.35::right :- go.
0.9::go.
stays :- \+left, \+right.
query(left).
query(stays).
query(stops).
