% Two dice with three faces, as annotated disjunctions of fractions.
1/2::face(D,1); 1/3::face(D,2); 1/6::face(D,3) :- die(D).
die(red). die(blue).
pair :- face(red,X), face(blue,X).
higher :- face(red,X), face(blue,Y), X > Y.
query(pair).
query(higher).
query(face(red,3)).
evidence(face(blue,1), false).
