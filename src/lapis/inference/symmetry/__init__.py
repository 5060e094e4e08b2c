"""Interchangeable atoms: found by hashing, proved by exchange, solved by counts."""
