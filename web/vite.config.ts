import { defineConfig } from "vite";

// Where `npm run dev` finds the running server.
const stoa = "http://127.0.0.1:8080";

// The client of this tree is bundled from its sources, with the library that is installed here: nothing has
// to be built or installed in clients/js. tsconfig.json says the same to the compiler.
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
    // Nothing is inlined: the Content-Security-Policy allows no data: URLs for
    // scripts, styles and fonts, and the polyfill would be one more script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: true, // of what is bundled, in dist/.vite
    rolldownOptions: {
      // The worker of pushes has an address that stays the same, at the root: it is the scope of what it may do.
      input: { index: at("./index.html"), sw: at("./src/sw.ts") },
      output: {
        entryFileNames: (chunk) => (chunk.name === "sw" ? "sw.js" : "assets/[name]-[hash].js"),
        // What the first view shares with others is one file, with what it needs itself: together it packs smaller.
        codeSplitting: { groups: [{ name: "shared", test: /\/src\/(agent|buttons|codes|days|dialog|form|person|zones)\.ts$/ }] },
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
