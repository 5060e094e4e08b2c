"""Checks the spelling of the pages: `python docs/spelling.py`.

Words of code, links and names are left out. A word is known if the dictionary of pyspellchecker or
`words.txt` has it; `words.txt` lists terms of the field and names, one in a line.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from spellchecker import SpellChecker

DOCS = Path(__file__).parent
WORDS = DOCS / "words.txt"
CODE = re.compile(
    r"^( *)(```+|~~~+).*?^\1\2 *$|^ {4}[^\n]*$|`+[^`]+`+|\$[^$\n]+\$|<!--.*?-->|<[^>\n]+>|\]\([^)]*\)|https?://\S+",
    re.MULTILINE | re.DOTALL,
)
WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
# Identifiers and other words that are not prose: capitals within, digits, paths, mathematics.
SKIPPED = re.compile(
    r"\S*(?:\w[A-Z]|[\d_=/\\@#{}|^~<>()\[\]*+]\w|\w[\d_=/\\@#{}|^~<>(\[*+]|\w\.\w)\S*"
)
ENDINGS = (("'s", ""), ("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ing", ""),
           ("ing", "e"), ("er", "e"), ("ers", "e"), ("ly", ""), ("ised", "ize"), ("ises", "ize"),
           ("ise", "ize"), ("ising", "ize"), ("isation", "ization"))  # fmt: skip


def pages() -> list[Path]:
    named = (DOCS.parent / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md",
                                             "ARCHITECTURE.md", "SECURITY.md"))  # fmt: skip
    written = (path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0][0] != "_")
    return [*(path for path in named if path.exists()), *sorted(written)]


def words_of(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, word) for the words of prose."""
    plain = CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for number, line in enumerate(plain.splitlines(), 1):
        for word in WORD.findall(SKIPPED.sub(" ", line)):
            if len(word) > 2:
                yield number, word


def is_known(word: str, dictionary: SpellChecker, own: set[str]) -> bool:
    lower = word.lower()
    forms = {lower} | {
        lower.removesuffix(end) + rest for end, rest in ENDINGS if lower.endswith(end)
    }
    return bool(forms & own) or bool(dictionary.known(forms))


def unknown_words(paths: list[Path]) -> dict[str, list[str]]:
    """Return the unknown words, each with its places."""
    dictionary = SpellChecker(language="en")
    own = {word.lower() for word in WORDS.read_text(encoding="utf-8").split()}
    found: dict[str, list[str]] = defaultdict(list)
    checked: dict[str, bool] = {}
    for path in paths:
        for line, word in words_of(path.read_text(encoding="utf-8")):
            if word not in checked:
                checked[word] = is_known(word, dictionary, own)
            if not checked[word]:
                found[word].append(f"{path.relative_to(DOCS.parent)}:{line}")
    return found


def main() -> None:
    found = unknown_words(pages())
    for word, places in sorted(found.items()):
        print(f"{word}: {', '.join(places[:4])}")
    print(f"{len(found)} unknown words; correct them, or add terms to docs/words.txt")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
