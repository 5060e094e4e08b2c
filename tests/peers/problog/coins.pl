% Two coins of different bias: at least one shows heads.
0.4::heads(left).
0.65::heads(right).
some :- heads(X).
both :- heads(left), heads(right).
query(some).
query(both).
query(heads(left)).
evidence(some).
