"""Generated tables with known duplicates: people and bibliographic references.

Both are reproducible from a seed. `make_people` has families at one address, nicknames, typing
errors, swapped names, moves, married names and missing values. `make_references` has papers by the
same authors with similar titles, initials, cut lists of authors, abbreviated venues and years that
are off by one. The column `entity` is the truth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas

CONSONANTS = [
    "b",
    "c",
    "d",
    "f",
    "g",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "w",
    "z",
    "br",
    "ch",
    "cr",
    "dr",
    "fr",
    "gr",
    "kl",
    "pr",
    "sch",
    "sh",
    "st",
    "th",
    "tr",
]
VOWELS = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ea", "ee", "ie", "oo", "ou"]
ENDINGS = [
    "n",
    "r",
    "s",
    "t",
    "l",
    "ck",
    "ng",
    "rd",
    "nd",
    "son",
    "man",
    "ley",
    "ton",
    "field",
    "berg",
    "er",
    "ski",
    "ez",
    "in",
]
NICKNAMES = """
alexander alex sasha|andrew andy drew|anthony tony|benjamin ben benny|charles charlie chuck
christopher chris kit|daniel dan danny|david dave|edward ed eddie ted|francis frank|frederick fred
george|gerald gerry jerry|gregory greg|henry harry hank|jacob jake|james jim jimmy jamie|jeffrey
jeff|jonathan jon|john jack johnny|joseph joe joey|joshua josh|kenneth ken kenny|lawrence larry
leonard len leo|matthew matt|michael mike mick|nathaniel nathan nate|nicholas nick|patrick pat paddy
peter pete|philip phil|raymond ray|richard rick dick rich|robert rob bob bobby|ronald ron ronnie
samuel sam|stephen steve|stuart stu|terence terry|theodore theo ted|thomas tom tommy|timothy tim
victor vic|vincent vince|walter walt|william will bill billy|zachary zach|abigail abby|alexandra
alex sandra|alice|amanda mandy|angela angie|anna annie ann|barbara barb babs|catherine cathy kate
katie|charlotte lottie|christina chris tina|clara|cynthia cindy|deborah deb debbie|dorothy dot dolly
edith|eleanor ellie nell|elizabeth liz beth betty eliza|emily em|emma|florence flo|frances fran
grace|hannah|helen nell|isabella bella izzy|jacqueline jackie|janet jan|jennifer jen jenny|jessica
jess|judith judy|julia julie|katherine kathy kate kit|kimberly kim|laura|lillian lily|linda lin|
lucy|margaret maggie meg peggy|martha|mary molly polly|megan meg|melissa mel|mildred millie|nancy
natalie nat|olivia liv|pamela pam|patricia pat patty tricia|rachel|rebecca becky|rosemary rose
rosie|ruth|samantha sam|sandra sandy|sarah sally|sophia sophie|susan sue susie|teresa terry tess|
theresa|valerie val|victoria vicky|virginia ginny|wendy|yvonne
""".replace("|", "\n")
KEYBOARD = {"a": "sqz", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh",
            "h": "gj", "i": "uo", "j": "hk", "k": "jl", "l": "k", "m": "n", "n": "bm", "o": "ip",
            "p": "o", "q": "wa", "r": "et", "s": "ad", "t": "ry", "u": "yi", "v": "cb", "w": "qe",
            "x": "zc", "y": "tu", "z": "x"}  # fmt: skip
DOMAINS = ("mail.com", "post.net", "inbox.org", "webmail.com", "home.net")
STREET_KINDS = ("street", "road", "lane", "avenue", "close", "drive")
SHORT_KINDS = {"street": "st", "road": "rd", "lane": "ln", "avenue": "ave", "drive": "dr"}


def make_words(rng: np.random.Generator, count: int, syllables: Sequence[float]) -> list[str]:
    """Return distinct invented words; `syllables` has the probabilities of 1, 2, 3, … ones."""
    found: dict[str, None] = {}
    while len(found) < count:
        number = 1 + rng.choice(len(syllables), p=syllables)
        parts = [f"{rng.choice(CONSONANTS)}{rng.choice(VOWELS)}" for _ in range(number)]
        found["".join(parts) + str(rng.choice(ENDINGS))] = None
    return list(found)


def zipf(count: int, power: float, shift: float = 2.0) -> np.ndarray:
    """Return float64[count]: probabilities that fall with the rank."""
    weights = (np.arange(count) + shift) ** -power
    return weights / weights.sum()


def entity_sizes(rng: np.random.Generator, num_records: int, shares: Sequence[float]) -> np.ndarray:
    """Return the number of records of each entity, which add up to `num_records`."""
    sizes = 1 + rng.choice(len(shares), size=num_records, p=shares)
    return sizes[: int(np.searchsorted(np.cumsum(sizes), num_records)) + 1]


def mistype(rng: np.random.Generator, text: str) -> str:
    """Change one character: replace it by a neighbour, drop, double, or swap it with the next."""
    if len(text) < 2:
        return text
    place = int(rng.integers(len(text)))
    letter = text[place]
    match rng.integers(5):
        case 0:
            return text[:place] + text[place + 1 :]
        case 1:
            return text[:place] + letter + text[place:]
        case 2 if place + 1 < len(text):
            return text[:place] + text[place + 1] + letter + text[place + 2 :]
        case _ if letter.isdigit():
            return text[:place] + str(rng.integers(10)) + text[place + 1 :]
        case _:
            near = KEYBOARD.get(letter, "e")
            return text[:place] + near[int(rng.integers(len(near)))] + text[place + 1 :]


def make_people(num_records: int, seed: int) -> pandas.DataFrame:
    """Return records of people: id, first_name, surname, birth_date, street, city, postcode, …"""
    rng = np.random.default_rng((seed, 1))
    people = People(rng, num_records)
    sizes = entity_sizes(rng, num_records, (0.55, 0.22, 0.13, 0.06, 0.04))
    rows = []
    for entity, size in enumerate(sizes):
        person = people.next_person()
        for copy in range(size):
            row = dict(person) if copy == 0 else people.copy_with_errors(person)
            rows.append({"entity": entity, **people.damage(row)})
    return finish(rng, rows[:num_records])


def finish(rng: np.random.Generator, rows: list[dict[str, object]]) -> pandas.DataFrame:
    """Return the rows in random order, with an id."""
    frame = pandas.DataFrame(rows).iloc[rng.permutation(len(rows))].reset_index(drop=True)
    frame.insert(0, "id", [f"R{number}" for number in range(len(frame))])
    return frame


class People:
    """What people are made of, and what goes wrong with them."""

    def __init__(self, rng: np.random.Generator, num_records: int) -> None:
        self.rng = rng
        lines = [line.split() for line in NICKNAMES.split("\n")]
        self.first: list[list[str]] = [line for line in lines if line]
        self.first_share = zipf(len(self.first), 0.7)
        self.surnames = make_words(rng, max(200, num_records // 12), (0.35, 0.5, 0.15))
        self.surname_share = zipf(len(self.surnames), 0.8, shift=8)
        self.cities = make_words(rng, max(12, num_records // 800), (0.1, 0.6, 0.3))
        self.city_share = zipf(len(self.cities), 0.9)
        self.streets = make_words(rng, max(60, num_records // 40), (0.2, 0.6, 0.2))
        self.family: dict[str, str] | None = None

    def pick(self, values: Sequence[str], share: np.ndarray | None = None) -> str:
        if share is None:
            return values[int(self.rng.integers(len(values)))]
        return values[int(np.searchsorted(np.cumsum(share), self.rng.random()))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def address(self) -> dict[str, str]:
        city = int(np.searchsorted(np.cumsum(self.city_share), self.rng.random()))
        return {
            "street": f"{self.rng.integers(1, 200)} {self.pick(self.streets)} "
            f"{self.pick(STREET_KINDS)}",
            "city": self.cities[city],
            "postcode": f"{10000 + city * 61 % 89000 + int(self.rng.integers(0, 40)):05d}",
        }

    def next_person(self) -> dict[str, str]:
        """Return a person; three in ten live with the person before and share the surname."""
        if self.family is not None and self.chance(0.3):
            shared = self.family
        else:
            shared = {"surname": self.pick(self.surnames, self.surname_share), **self.address()}
        self.family = shared
        first = self.first[int(np.searchsorted(np.cumsum(self.first_share), self.rng.random()))][0]
        born = np.datetime64("1930-01-01") + int(self.rng.integers(0, 28_000))
        number = int(self.rng.integers(1, 100))
        email = f"{self.pick((first, first[0]))}.{shared['surname']}{number}@{self.pick(DOMAINS)}"
        return {
            "first_name": first,
            "surname": shared["surname"],
            "birth_date": str(born),
            "street": shared["street"],
            "city": shared["city"],
            "postcode": shared["postcode"],
            "phone": f"0{self.rng.integers(10**8, 10**9)}",
            "email": email,
        }

    def copy_with_errors(self, person: dict[str, str]) -> dict[str, str]:
        """Return another record of a person: other spellings, moves, new names and numbers."""
        row = dict(person)
        names = next(line for line in self.first if line[0] == row["first_name"])
        if self.chance(0.2):
            row["first_name"] = self.pick(names)
        if self.chance(0.03):
            row["first_name"] = row["first_name"][0]
        if self.chance(0.04):
            row["surname"] = self.pick(self.surnames, self.surname_share)  # married
        if self.chance(0.12):
            row |= self.address()  # moved
        if self.chance(0.2):
            row["phone"] = f"0{self.rng.integers(10**8, 10**9)}"
        if self.chance(0.2):
            row["email"] = f"{row['first_name']}{self.rng.integers(1, 1000)}@{self.pick(DOMAINS)}"
        if self.chance(0.25):
            number, name, kind = row["street"].split()
            row["street"] = f"{number} {name} {SHORT_KINDS.get(kind, kind)}"
        for column, probability in (
            ("first_name", 0.1), ("surname", 0.12), ("street", 0.12), ("city", 0.06),
            ("postcode", 0.05), ("phone", 0.05), ("email", 0.06),
        ):  # fmt: skip
            if self.chance(probability):
                row[column] = mistype(self.rng, row[column])
                if self.chance(0.15):
                    row[column] = mistype(self.rng, row[column])
        if self.chance(0.08):
            row["birth_date"] = self.wrong_date(row["birth_date"])
        if self.chance(0.03):
            row["first_name"], row["surname"] = row["surname"], row["first_name"]
        return row

    def wrong_date(self, date: str) -> str:
        """Return a date with day and month swapped, another year, or an unknown day."""
        year, month, day = date.split("-")
        match self.rng.integers(4):
            case 0 if int(day) <= 12:
                return f"{year}-{day}-{month}"
            case 1:
                year = str(int(year) + int(self.rng.choice([-10, -1, 1, 10])))
                return f"{year}-{month}-{min(int(day), 28):02d}"
            case 2:
                return f"{year}-01-01"
            case _:
                return f"{year}-{month}-{int(self.rng.integers(1, 29)):02d}"

    def damage(self, row: dict[str, str]) -> dict[str, str | None]:
        """Return the record with missing values."""
        missing = {"first_name": 0.02, "surname": 0.01, "birth_date": 0.12, "street": 0.1,
                   "city": 0.06, "postcode": 0.1, "phone": 0.3, "email": 0.3}  # fmt: skip
        return {n: None if self.chance(missing[n]) else value for n, value in row.items()}


TITLE_FORMS = (
    "{a} for {n}", "{a} {n} with {m}", "on the {p} of {n}", "a {a} approach to {n}",
    "{n} and {m}: {p}", "learning {n} from {m}", "towards {a} {n}", "{p} of {a} {n} in {m}",
    "{a} {n} for {m} {k}", "the {p} of {n} under {a} {m}",
)  # fmt: skip
TAILS = ("", "", "", "", "", " part ii", " revisited", ": an extended abstract", " (demo)")


def make_references(num_records: int, seed: int) -> pandas.DataFrame:
    """Return references: id, title, authors, venue, year, pages; truth in `entity`."""
    rng = np.random.default_rng((seed, 2))
    makers = References(rng, num_records)
    sizes = entity_sizes(rng, num_records, (0.4, 0.2, 0.12, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02))
    rows = []
    for entity, size in enumerate(sizes):
        paper = makers.next_paper()
        rows += [{"entity": entity, **makers.cite(paper)} for _ in range(size)]
    return finish(rng, rows[:num_records])


class References:
    """What papers are made of, and how they are cited."""

    def __init__(self, rng: np.random.Generator, num_records: int) -> None:
        self.rng = rng
        self.nouns = make_words(rng, 900, (0.1, 0.6, 0.3))
        self.noun_share = zipf(len(self.nouns), 0.8, shift=10)
        self.adjectives = [word + "al" for word in make_words(rng, 250, (0.2, 0.6, 0.2))]
        self.properties = [word + "ity" for word in make_words(rng, 80, (0.3, 0.6, 0.1))]
        self.given = make_words(rng, 300, (0.4, 0.5, 0.1))
        self.surnames = make_words(rng, max(300, num_records // 15), (0.3, 0.5, 0.2))
        self.surname_share = zipf(len(self.surnames), 0.6, shift=10)
        self.venues = [self.make_venue() for _ in range(150)]
        self.venue_share = zipf(len(self.venues), 0.8)
        self.last: tuple[str, list[tuple[str, str]]] | None = None

    def pick(self, values: Sequence[str], share: np.ndarray | None = None) -> str:
        if share is None:
            return values[int(self.rng.integers(len(values)))]
        return values[int(np.searchsorted(np.cumsum(share), self.rng.random()))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def make_venue(self) -> tuple[str, str, str]:
        """Return a venue: its full name, one that is abbreviated, and its letters."""
        words = [self.pick(self.nouns) for _ in range(int(self.rng.integers(1, 4)))]
        kind = self.pick(("conference on", "journal of", "workshop on", "transactions on"))
        long = f"{'international ' if self.chance(0.5) else ''}{kind} {' '.join(words)}"
        short = {"conference on": "conf.", "journal of": "j.", "workshop on": "wkshp",
                 "transactions on": "trans."}[kind]  # fmt: skip
        letters = "".join(word[0] for word in long.split() if word not in ("on", "of"))
        return long, f"{short} {' '.join(word[:5] for word in words)}", letters

    def title(self) -> str:
        form = self.pick(TITLE_FORMS) + self.pick(TAILS)
        nouns = [self.pick(self.nouns, self.noun_share) for _ in range(3)]
        return form.format(
            a=self.pick(self.adjectives), p=self.pick(self.properties), n=nouns[0], m=nouns[1],
            k=nouns[2],
        )  # fmt: skip

    def next_paper(self) -> dict[str, object]:
        """Return a paper; one in four has the authors of the one before, often a similar title."""
        title = self.title()
        authors = [
            (self.pick(self.given), self.pick(self.surnames, self.surname_share))
            for _ in range(1 + int(self.rng.choice(5, p=(0.2, 0.35, 0.25, 0.12, 0.08))))
        ]
        if self.last is not None and self.chance(0.25):
            authors = self.last[1]
            if self.chance(0.5):
                words = self.last[0].split()
                words[int(self.rng.integers(len(words)))] = self.pick(self.nouns, self.noun_share)
                title = " ".join(words)
        self.last = title, authors
        start = int(self.rng.integers(1, 900))
        return {
            "title": title,
            "authors": authors,
            "venue": self.venues[
                int(np.searchsorted(np.cumsum(self.venue_share), self.rng.random()))
            ],
            "year": int(self.rng.integers(1970, 2025)),
            "pages": (start, start + int(self.rng.integers(4, 30))),
        }

    def cite(self, paper: dict[str, object]) -> dict[str, str | int | None]:
        """Return a reference to a paper, in a style of its own and with errors."""
        title, year = str(paper["title"]), int(paper["year"])  # type: ignore[call-overload]
        words = title.split()
        if self.chance(0.1) and len(words) > 4:
            words = words[: int(self.rng.integers(3, len(words)))]
        if self.chance(0.12):
            words = [w for w in words if w not in ("the", "of", "a", "on", "for", "to", "in")]
        if self.chance(0.06) and len(words) > 3:
            words.pop(int(self.rng.integers(len(words))))
        if self.chance(0.03):
            place = int(self.rng.integers(len(words)))
            words = words[place:] + words[:place]
        title = " ".join(words)
        for _ in range(int(self.rng.choice(4, p=(0.72, 0.18, 0.07, 0.03)))):
            title = mistype(self.rng, title)
        if self.chance(0.1):
            year += int(self.rng.choice((-1, 1)))
        venue: tuple[str, str, str] = paper["venue"]  # type: ignore[assignment]
        first, last = paper["pages"]  # type: ignore[misc]
        return {
            "title": None if self.chance(0.02) else title,
            "authors": None if self.chance(0.04) else self.cite_authors(paper["authors"]),
            "venue": None if self.chance(0.2) else self.cite_venue(venue),
            "year": None if self.chance(0.12) else year,
            "pages": None if self.chance(0.45) else self.pick((f"{first}-{last}", f"pp. {first}")),
        }

    def cite_venue(self, venue: tuple[str, str, str]) -> str:
        name = self.pick(venue)
        if self.chance(0.15):
            name = f"proc. {name}"
        return mistype(self.rng, name) if self.chance(0.06) else name

    def cite_authors(self, authors: object) -> str:
        """Return the list of authors: full names or initials, cut, in another order."""
        listed: list[tuple[str, str]] = list(authors)  # type: ignore[call-overload]
        if self.chance(0.08) and len(listed) > 1:
            listed.reverse()
        cut = len(listed) > 2 and self.chance(0.2)
        style = int(self.rng.integers(4))
        names = [
            (f"{g} {s}", f"{g[0]}. {s}", f"{s}, {g[0]}.", f"{s} {g[0]}")[style]
            for g, s in (listed[:1] if cut else listed)
        ]
        names = [mistype(self.rng, name) if self.chance(0.05) else name for name in names]
        return "; ".join(names) + (" et al." if cut else "")


def add_keys(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Add keys for blocking: the longest words of the title, that of the first author."""
    title = [longest_words(text) for text in frame["title"]]
    author = [longest_words(str(text).split(";")[0] if text else None) for text in frame["authors"]]
    return frame.assign(
        word1=[words[0] for words in title],
        word2=[words[1] for words in title],
        author1=[words[0] for words in author],
    )


def longest_words(text: object) -> tuple[str | None, str | None]:
    """Return the two longest words of a text; ties are in the order of the alphabet."""
    words = {} if not isinstance(text, str) else set(re.findall("[a-z]+", text))
    ordered = [*sorted(words, key=lambda word: (-len(word), word)), None, None]
    return ordered[0], ordered[1]
