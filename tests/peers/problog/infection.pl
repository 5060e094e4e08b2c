% Friends infect each other: a cycle through probabilistic rules.
person(eve). person(fay). person(gus).
friend(eve,fay). friend(fay,eve). friend(fay,gus).
0.3::ill(X) :- person(X).
0.4::ill(X) :- friend(X,Y), ill(Y).
query(ill(eve)).
query(ill(gus)).
evidence(ill(fay), true).
