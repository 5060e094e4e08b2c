% Reachability in a directed graph with cycles.
0.6::edge(a,b). 0.3::edge(b,c). 0.7::edge(c,a).
0.4::edge(b,d). 0.2::edge(d,b). 0.9::edge(c,d).
path(X,Y) :- edge(X,Y).
path(X,Y) :- edge(X,Z), path(Z,Y).
query(path(a,d)).
query(path(a,a)).
query(path(d,X)).
