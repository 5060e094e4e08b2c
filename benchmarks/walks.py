"""Files, folders and functions that run in five common commands.

A command runs in this process under a profile function. A file counts as run if one of its
functions was called (bodies of modules and classes do not count), as imported if it is in
`sys.modules` afterwards.

    python benchmarks/walks.py [NAME...] [--tree]
"""

from __future__ import annotations

import inspect
import io
import json
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType

EXAMPLES = Path(__file__).parents[1] / "src" / "lapis" / "examples"
MODEL, DATA = str(EXAMPLES / "smokers.mln"), str(EXAMPLES / "smokers.db")
TRAINING = str(EXAMPLES / "smokers-training.db")
WALKS = {
    "infer": ["infer", MODEL, DATA, "-q", "Smokes"],
    "learn": ["learn", MODEL, TRAINING, "-q", "Smokes,Cancer"],
    "lift": ["lift", MODEL, "--sizes", "person=1000"],
    "structure": ["structure", "DECLARATIONS", TRAINING, "--max-literals", "2"],
    "circuit": ["circuit", "learn", "ROWS"],
}
ROWS = "a,b,c\n" + "0,0,1\n0,1,1\n1,1,0\n1,0,0\n" * 40


def trace(words: list[str]) -> dict[str, object]:
    """Run a command and count the files, folders and functions of the package that it calls."""
    import lapis

    root = str(Path(lapis.__file__).parent)
    called: dict[tuple[str, str], int] = {}
    calls: list[str] = []
    depth = deepest = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal depth, deepest
        code = frame.f_code
        if not code.co_filename.startswith(root) or not code.co_flags & inspect.CO_OPTIMIZED:
            return  # module and class bodies
        if event == "call":
            depth += 1
            deepest = max(deepest, depth)
            name = (code.co_filename[len(root) + 1 :], code.co_qualname)
            if name not in called:
                calls.append(f"{'  ' * depth}{name[0]}:{name[1]}")
            called[name] = called.get(name, 0) + 1
        elif event == "return":
            depth -= 1

    from lapis.cli.main import main

    sys.setprofile(profile)
    try:
        with redirect_stdout(io.StringIO()):
            main(words)
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
    files = {file for file, _ in called}
    return {
        "files": len(files),
        "imported": sum(name.startswith("lapis") for name in sys.modules),
        "folders": len({str(Path(file).parent) for file in files}),
        "functions": len(called),
        "depth": deepest,
        "calls": calls,
    }


def main() -> None:
    names = [word for word in sys.argv[1:] if not word.startswith("-")] or list(WALKS)
    if "--trace" in sys.argv:
        print(json.dumps(trace(json.loads(sys.stdin.read()))))
        return
    with tempfile.TemporaryDirectory() as folder:
        declarations, rows = Path(folder) / "decl.mln", Path(folder) / "rows.csv"
        declarations.write_text(
            "Friends(person, person)\nSmokes(person)\nCancer(person)\n", encoding="utf-8"
        )
        rows.write_text(ROWS, encoding="utf-8")
        places = {"DECLARATIONS": str(declarations), "ROWS": str(rows)}
        print("command      files run  imported  folders  functions  depth")
        for name in names:
            words = [places.get(word, word) for word in WALKS[name]]
            found = json.loads(
                subprocess.run(
                    [sys.executable, __file__, "--trace"],
                    input=json.dumps(words),
                    capture_output=True,
                    check=True,
                    text=True,
                ).stdout
            )
            print(
                f"{name:<12}{found['files']:>10}{found['imported']:>10}{found['folders']:>9}"
                f"{found['functions']:>11}{found['depth']:>7}"
            )
            if "--tree" in sys.argv:
                print("\n".join(found["calls"]))


if __name__ == "__main__":
    main()
