"""Who advises whom? Learn in two areas of a department, and predict in a third.

Rules and facts are files: `uwcse/rules.mln` includes its declarations, and each area is one world,
since people of different areas are not compared.

    python examples/uwcse.py
"""

from pathlib import Path

import lapis

folder = Path(__file__).with_name("uwcse")
model = lapis.read(folder / "rules.mln")
training = [lapis.Database.read(folder / f"{area}.db") for area in ("ai", "systems")]

fit = lapis.learn(model, training, query="AdvisedBy")
print(fit)

# The advisors of the held-out area are not shown to inference, only to the score.
held_out = lapis.Database.read(folder / "theory.db")
score = lapis.score(fit.model, held_out, "AdvisedBy", likelihood=False)
print(f"\n{score}")

truth = {
    f"AdvisedBy({','.join(names)})"
    for predicate, names, value in held_out.facts()
    if predicate == "AdvisedBy" and value
}
facts = held_out.to_frames()
del facts["AdvisedBy"]
answer = lapis.infer(fit.model, lapis.Database.from_frames(facts), query="AdvisedBy")
print(f"\nadvisors in theory, {answer.summary()}")
for atom, probability in sorted(answer.marginals.items(), key=lambda each: -each[1])[:8]:
    print(f"{probability:.3f}  {atom}{'' if atom in truth else '  (not in the data)'}")
