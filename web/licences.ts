// Writes the licences of the packages that the bundle contains.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

const NAME = /node_modules\/((?:@[^/]+\/)?[^/]+)\//;

export function licences(): Plugin {
  return {
    name: "licences",
    generateBundle(_, bundle) {
      const packages = new Set<string>();
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        for (const id of chunk.moduleIds) {
          const found = NAME.exec(id);
          if (found) packages.add(found[1]);
        }
      }
      const source = [...packages].sort().map(describe).join("\n\n");
      this.emitFile({ type: "asset", fileName: "LICENCES.txt", source });
    },
  };
}

function describe(name: string): string {
  const folder = join("node_modules", name);
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  const text = file && existsSync(join(folder, file)) ? readFileSync(join(folder, file), "utf8") : "";
  return `${name} ${about.version}: ${about.license}\n\n${text.trim()}\n${"-".repeat(80)}`;
}
