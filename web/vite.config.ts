import { defineConfig } from "vite";
import { licences } from "./licences";

export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [licences()],
  build: {
    outDir: "../src/lapis/web/dist",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content security policy allows files only
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
});
