// Prints the tokens of each file of its arguments as JSON: kind, start, end. For the tests.
import { readFileSync } from "node:fs";
import { build } from "vite";

const [result] = await build({
  logLevel: "silent",
  configFile: false,
  build: { write: false, lib: { entry: "src/tokens.ts", formats: ["es"] } },
});
const code = result.output[0].code;
const { tokenize } = await import(`data:text/javascript,${encodeURIComponent(code)}`);
const found = process.argv.slice(2).map((path) =>
  tokenize(readFileSync(path, "utf8").replace(/\r\n?/g, "\n")).map((t) => [t.kind, t.start, t.end]),
);
console.log(JSON.stringify(found));
