"""Diagnosis with the Bayesian network of the chest clinic, as in a notebook."""

from pathlib import Path

import lapis

model = lapis.read(Path(__file__).with_name("asia.bif"))
print(model)

# How likely are the diseases of a patient of whom nothing is known?
before = lapis.infer(model, query="tub, lung, bronc")
print(before)

# She visited Asia and is short of breath.
observed = {"asia": "yes", "dysp": "yes"}
after = lapis.infer(model, query="tub, lung, bronc", evidence=observed)
for disease in ("tub", "lung", "bronc"):
    state = f"{disease}=yes"
    print(f"{disease:6} {before[state]:.4f} -> {after[state]:.4f}")

# An X-ray that its reader calls abnormal with probability 0.8.
doubtful = lapis.infer(
    model, query="lung", evidence=observed, soft_evidence={"xray=yes": 0.8}, soft_as="posterior"
)
print(f"lung   {doubtful['lung=yes']:.4f} if the X-ray is abnormal with probability 0.8")

# The most likely state of everything else.
print(lapis.api.map(model, evidence=observed).true_atoms)
