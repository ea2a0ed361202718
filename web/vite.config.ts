import { defineConfig } from "vite";

// The address of the running server for `npm run dev`.
const stoa = "http://127.0.0.1:8080";

// The client of this tree is bundled from its sources, with the library that is installed here. So clients/js needs no
// build and no installation. tsconfig.json has the same paths for the compiler.
const at = (path: string) => decodeURIComponent(new URL(path, import.meta.url).pathname);

export default defineConfig({
  resolve: {
    alias: {
      "@stoa-dev/client": at("../clients/js/src/index.ts"),
      centrifuge: at("./node_modules/centrifuge"),
    },
  },
  build: {
    target: "es2022",
    // No asset is inlined, because the Content-Security-Policy forbids data: URLs for scripts, styles and fonts. The
    // polyfill would be one more script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: true, // of the bundled packages, in dist/.vite
    rolldownOptions: {
      // The worker of pushes has a constant address at the root, which is its scope.
      input: { index: at("./index.html"), sw: at("./src/sw.ts") },
      output: {
        entryFileNames: (chunk) => (chunk.name === "sw" ? "sw.js" : "assets/[name]-[hash].js"),
        // The modules that the first view shares with others are one file, with their own imports. Together they
        // compress better.
        codeSplitting: {
          groups: [
            { name: "shared", test: /\/src\/(agent|buttons|codes|days|dialog|form|person|zones)\.ts$/ },
            { name: "signals", test: /\/@preact\/signals-core\// }, // of the connection, which has no components
            { name: "parts", test: /\/src\/ui\/\w+\.tsx?$/ }, // of all later views
          ],
        },
      },
    },
  },
  server: {
    host: "127.0.0.1",
    proxy: {
      "/v1": stoa,
      "/dev": stoa,
      "/docs": stoa,
      "/openapi.json": stoa,
    },
  },
});
