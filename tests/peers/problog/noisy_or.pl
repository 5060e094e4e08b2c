% Several causes of one effect, one of them certain, one absent.
0.4::flu. 0.1::cold. allergy.
0.8::fever :- flu.
0.3::fever :- cold.
0.05::fever :- allergy.
0.9::fever :- malaria.
evidence(\+cold).
query(fever).
query(flu).
