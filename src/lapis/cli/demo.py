"""`lapis demo`: the smokers example, end to end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lapis.api import infer, learn, map
from lapis.cli.render import console, plain, print_json, show
from lapis.data.binding import bind
from lapis.data.database import Database
from lapis.examples import example_path
from lapis.language import read_model

QUERY = ("Smokes", "Cancer")


def run_demo(as_json: bool) -> None:
    path, data_path = example_path("smokers.mln"), example_path("smokers.db")
    model, data = read_model(path), Database.read(data_path)
    answer = infer(model, data, QUERY)
    world = map(model, data, QUERY)
    training = Database.read(example_path("smokers-training.db"))
    forgotten = model.with_rules(tuple(replace(rule, weight=None) for rule in model.rules))
    fit = learn(forgotten, training, QUERY, objective="pseudo")
    if as_json:
        print_json({"infer": answer.to_json(), "map": world.to_json(), "learn": fit.to_json()})
        return
    out = console()
    out.rule("The model")
    out.print(plain(Path(path).read_text(encoding="utf-8").strip()))
    out.rule("The data")
    out.print(plain(str(bind(data, model).describe())))
    out.rule("How likely is it that each person smokes, and has cancer?")
    show(answer)
    out.rule("The most likely world")
    show(world)
    out.rule("The weights, forgotten and learned back from 1,200 people")
    show(fit)
    out.print(
        plain("\nThe same with your own files: lapis infer MODEL DATA -q Smokes,Cancer", "dim")
    )
    out.print(plain("and weights for your own rules: lapis learn MODEL DATA -o LEARNED", "dim"))
