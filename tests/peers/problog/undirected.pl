% Connected terminals of an undirected network, given a failure elsewhere.
0.9::link(1,2). 0.8::link(2,3). 0.7::link(1,3). 0.6::link(3,4).
wire(X,Y) :- link(X,Y).
wire(X,Y) :- link(Y,X).
reach(1).
reach(Y) :- reach(X), wire(X,Y).
cut :- \+reach(4).
evidence(link(1,2), false).
query(reach(3)).
query(reach(4)).
query(cut).
