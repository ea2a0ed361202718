// The rules for the page and for the JavaScript client. Prettier formats both, so no rule here is about form.

import js from "@eslint/js";
import ts from "typescript-eslint";
import noCircle from "./no-circle.js";

export default ts.config(
  { ignores: ["**/dist/", "**/node_modules/", "clients/js/src/wire.ts"] },
  js.configs.recommended,
  ts.configs.recommended,
  {
    plugins: { local: { rules: { "no-circle": noCircle } } },
    rules: {
      eqeqeq: "error",
      "local/no-circle": "error",
      "no-console": ["error", { allow: ["warn"] }],
      "no-restricted-syntax": [
        "error",
        {
          selector: "ConditionalExpression > ConditionalExpression > ConditionalExpression",
          message: "Use a table, or a function with early returns.",
        },
      ],
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/no-unused-expressions": "off", // `a && b()` is a short condition
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
    },
  },
  {
    files: ["web/src/**", "clients/js/src/**"],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: `${import.meta.dirname}/../..` } },
    rules: {
      "@typescript-eslint/await-thenable": "error",
      "@typescript-eslint/no-floating-promises": "error",
    },
  },
  // A table would separate the forms of a word from its sentence.
  { files: ["web/src/texts/**"], rules: { "no-restricted-syntax": "off" } },
  // The tests run these files, so they find a name that does not exist.
  { files: ["**/*.js"], rules: { "no-undef": "off" } },
);
