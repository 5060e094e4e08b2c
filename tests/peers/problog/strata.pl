% Negation over a recursive predicate: bottlenecks of a pipeline.
0.7::up(s,m). 0.6::up(m,t). 0.5::up(s,n). 0.5::up(n,t). 0.4::up(n,m).
flows(X) :- up(s,X).
flows(Y) :- flows(X), up(X,Y).
dry(X) :- node(X), \+flows(X).
node(m). node(n). node(t).
alarm :- dry(t), \+dry(n).
query(dry(t)).
query(alarm).
query(flows(m)).
evidence(dry(m), false).
