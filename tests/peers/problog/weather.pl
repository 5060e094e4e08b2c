% Tomorrow's weather is one of three, and depends on today's.
0.5::sun(0); 0.3::cloud(0); 0.2::rain(0).
0.6::sun(1); 0.3::cloud(1); 0.1::rain(1) :- sun(0).
0.3::sun(1); 0.4::cloud(1); 0.3::rain(1) :- cloud(0).
0.2::sun(1); 0.2::cloud(1); 0.6::rain(1) :- rain(0).
0.8::umbrella(D) :- rain(D).
0.1::umbrella(D) :- cloud(D).
evidence(umbrella(1)).
query(sun(0)).
query(rain(1)).
query(umbrella(0)).
