import { readdirSync } from "node:fs";
import { defineConfig } from "vite";
import config from "./vite.config.ts";

// The unit tests are bundled with the modules under test, so that Node needs no loader for TypeScript.
const tests = readdirSync("test").filter((name) => name.endsWith(".test.ts"));

export default defineConfig({
  resolve: config.resolve!,
  ssr: { noExternal: true },
  build: {
    ssr: true,
    target: "node20",
    outDir: "node_modules/.test",
    rolldownOptions: {
      input: tests.map((name) => `./test/${name}`),
      output: { entryFileNames: "[name].js" },
    },
  },
});
