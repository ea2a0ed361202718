// The User-Agent of a logged-in program, in words.

import { t } from "./texts";

const browsers: [RegExp, string][] = [
  [/Edg\w*\//, "Edge"],
  [/OPR\//, "Opera"],
  [/Firefox\//, "Firefox"],
  [/Chrom(e|ium)\//, "Chrome"],
  [/Safari\//, "Safari"],
];
const systems: [RegExp, string][] = [
  [/iPhone/, "iPhone"],
  [/iPad/, "iPad"],
  [/Android/, "Android"],
  [/Windows/, "Windows"],
  [/Mac OS/, "Mac"],
  [/Linux/, "Linux"],
];

/** "Chrome on Linux", "curl 8.5.0"; "" for an agent without a name. */
export function agentWords(agent: string): string {
  const first = (pairs: [RegExp, string][]) => pairs.find(([re]) => re.test(agent))?.[1];
  const browser = first(browsers);
  if (!browser) return (agent.split(" ")[0] ?? "").replace("/", " ");
  const system = first(systems);
  return system ? t.devices.agent(browser, system) : browser;
}
