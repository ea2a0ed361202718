// An ESLint rule that reports imports in a circle. Imports of types count too, because they bind files as closely.

import fs from "node:fs";
import path from "node:path";

// A part that is loaded later, by import(), does not count.
const imports = /^(?:import|export)\b(?:[^"';]*?\bfrom)?\s*"(\.[^"]+)"/gm;
const graph = new Map(); // the imported files of each file

// The sources import with the name of the compiled file, or without an ending.
const candidates = (name) => [name, name.replace(/\.js$/, ".ts"), `${name}.ts`, `${name}.tsx`];

function importsOf(file) {
  let found = graph.get(file);
  if (!found) {
    const names = [...fs.readFileSync(file, "utf8").matchAll(imports)].map((m) => m[1]);
    const paths = names.map((name) => path.resolve(path.dirname(file), name));
    found = paths.flatMap((p) => candidates(p).find((c) => fs.statSync(c, { throwIfNoEntry: false })?.isFile()) ?? []);
    graph.set(file, found);
  }
  return found;
}

// wayBack returns the files from `from` to `to`, or undefined if there is no way.
function wayBack(from, to, seen = new Set()) {
  if (from === to) return [to];
  if (seen.has(from)) return undefined;
  seen.add(from);
  for (const next of importsOf(from)) {
    const rest = wayBack(next, to, seen);
    if (rest) return [from, ...rest];
  }
  return undefined;
}

export default {
  create(context) {
    const check = (node) => {
      const name = node.source?.value;
      if (!name?.startsWith(".")) return;
      const file = context.filename;
      const target = candidates(path.resolve(path.dirname(file), name)).find((c) => importsOf(file).includes(c));
      const circle = target && wayBack(target, file);
      if (circle)
        context.report({ node, message: `An import circle: ${circle.map((f) => path.basename(f)).join(", ")}.` });
    };
    return { ImportDeclaration: check, ExportNamedDeclaration: check, ExportAllDeclaration: check };
  },
};
