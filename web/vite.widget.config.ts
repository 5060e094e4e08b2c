import { defineConfig } from "vite";

// One module for notebooks, with its styles.
export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  define: { "process.env.NODE_ENV": '"production"' },
  build: {
    outDir: "../src/lapis/web/dist/widget",
    emptyOutDir: true,
    lib: { entry: "src/widget.tsx", formats: ["es"], fileName: "widget" },
    rolldownOptions: { output: { codeSplitting: false } },
  },
});
