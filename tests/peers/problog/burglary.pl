% A burglary or an earthquake may set off the alarm; two neighbours call.
0.02::burglary.
0.05::earthquake.
0.95::alarm :- burglary, earthquake.
0.85::alarm :- burglary, \+earthquake.
0.30::alarm :- \+burglary, earthquake.
neighbour(ann). neighbour(ben).
0.75::calls(X) :- alarm, neighbour(X).
0.06::calls(X) :- \+alarm, neighbour(X).
evidence(calls(ann), true).
evidence(calls(ben), false).
query(burglary).
query(earthquake).
query(alarm).
