import { defineConfig } from "vite";

// Where `npm run dev` finds the running server.
const stoa = "http://127.0.0.1:8080";

export default defineConfig({
  build: {
    target: "es2022",
    // Nothing is inlined: the Content-Security-Policy allows no data: URLs for
    // scripts, styles and fonts, and the polyfill would be one more script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: false,
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
