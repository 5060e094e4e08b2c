// The tokens of a Markov logic file, as src/lapis/language/lexer.py splits them.

export interface Token {
  kind: string;
  start: number;
  end: number;
}

const SYMBOLS: Record<string, string> = {
  "<=>": "IFF", "<->": "IFF", "⇔": "IFF", "↔": "IFF",
  "=>": "IMPLIES", "->": "IMPLIES", "⇒": "IMPLIES", "→": "IMPLIES",
  "^": "AND", "&": "AND", "∧": "AND", "|": "BAR", "∨": "OR",
  "!=": "NE", "=/=": "NE", "≠": "NE", "<=": "LE", "=<": "LE", "≤": "LE", ">=": "GE", "≥": "GE",
  "=": "EQ", "==": "EQ", "<": "LT", ">": "GT", "!": "NOT", "~": "NOT", "¬": "NOT",
  "∃": "EXISTS", "∀": "FORALL", "\\exists": "EXISTS", "\\forall": "FORALL",
  "...": "ELLIPSIS", ".": "PERIOD", ",": "COMMA", ":": "COLON", "?": "QUESTION", "@": "AT",
  "(": "LPAR", ")": "RPAR", "[": "LSQB", "]": "RSQB", "{": "LBRACE", "}": "RBRACE",
  "+": "PLUS", "-": "MINUS", "*": "STAR", "/": "SLASH",
};
const WORDS: Record<string, string> = { v: "OR", _: "UNDERSCORE" };
const QUANTIFIERS: Record<string, string> = { exist: "EXISTS", exists: "EXISTS", forall: "FORALL" };
const CONNECTIVES = new Set(["IFF", "IMPLIES", "AND", "OR", "BAR", "NOT", "EXISTS", "FORALL"]);

const escape = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
const SYMBOL = Object.keys(SYMBOLS).sort((a, b) => b.length - a.length).map(escape).join("|");
const W = "[\\p{L}\\p{N}_]";
const TOKEN = new RegExp(
  "[^\\S\\n]*(?:(?<COMMENT>\\/\\/[^\\n]*|\\/\\*[^]*?\\*\\/)|(?<OPEN>\\/\\*)|(?<NEWLINE>\\n)" +
    `|(?<INCLUDE>#include(?!${W}))|(?<HASH>#[^\\n]*)` +
    '|(?<STRING>"(?:[^"\\\\\\n]|\\\\.)*")' +
    `|(?<NUMBER>(?=((?:\\p{Nd}+(?:\\.\\p{Nd}+)?|\\.\\p{Nd}+)(?:[eE][+-]?\\p{Nd}+)?))\\8(?!${W}))` +
    `|(?<NAME>(?!\\p{Nd})${W}+'*|\\p{Nd}+${W}*'*)` +
    `|(?<SYMBOL>${SYMBOL})|(?<OTHER>[^])|(?<END>$))`,
  "uy",
);
const KINDS = [
  "COMMENT", "OPEN", "NEWLINE", "INCLUDE", "HASH", "STRING", "NUMBER", "NAME", "SYMBOL", "OTHER",
];

export function tokenize(text: string): Token[] {
  const found: Token[] = [];
  TOKEN.lastIndex = 0;
  for (;;) {
    const match = TOKEN.exec(text);
    if (!match || match.groups!.END !== undefined) return found;
    const groups = match.groups!;
    let kind = KINDS.find((name) => groups[name] !== undefined)!;
    const piece = groups[kind];
    const end = TOKEN.lastIndex;
    if (kind === "NAME") kind = WORDS[piece] ?? QUANTIFIERS[piece.toLowerCase()] ?? "NAME";
    if (kind === "SYMBOL") kind = SYMBOLS[piece];
    found.push({ kind, start: end - piece.length, end });
  }
}

export interface Colour {
  start: number;
  end: number;
  style: string;
}

// The colour of each token; `declared` are the predicates that the checked model has.
export function colours(text: string, declared: ReadonlySet<string>): Colour[] {
  const tokens = tokenize(text);
  const found: Colour[] = [];
  tokens.forEach((token, place) => {
    const style = styleOf(text, token, tokens[place + 1], declared);
    if (style) found.push({ start: token.start, end: token.end, style });
  });
  return found;
}

function styleOf(
  text: string,
  token: Token,
  next: Token | undefined,
  declared: ReadonlySet<string>,
): string | null {
  const { kind } = token;
  if (kind === "COMMENT") return "comment";
  if (kind === "NUMBER") return "number";
  if (kind === "STRING") return "string";
  if (kind === "INCLUDE" || kind === "HASH") return "meta";
  if (CONNECTIVES.has(kind)) return "connective";
  if (kind === "PERIOD") return "hard";
  if (kind !== "NAME") return null;
  const name = text.slice(token.start, token.end);
  if (declared.has(name) || next?.kind === "LPAR") return "predicate";
  if (next?.kind === "EQ" && /^\p{Ll}/u.test(name)) return "type";
  return /^[\p{Lu}\p{Nd}]/u.test(name) ? "constant" : "variable";
}
