// The language of the page. texts/en.ts has every text; each other language is a
// file of the same keys, which is fetched only where it is spoken.

import { storage } from "./storage";
import { en, type Texts } from "./texts/en";

const STORE = "stoa.language";
const languages = ["en", "zh"] as const;
type Language = (typeof languages)[number];

/** The first of the reader's languages that the page speaks; what they chose here comes first. */
function chosen(): Language {
  for (const tag of [storage.getItem(STORE) ?? new URLSearchParams(location.search).get("language") ?? "", ...navigator.languages]) {
    const found = languages.find((l) => l === tag.toLowerCase().split("-")[0]);
    if (found) return found;
  }
  return "en";
}

const language = chosen();

/** What the page says. */
export const t: Texts = language === "zh" ? await import("./texts/zh").then((m) => m.zh, () => en) : en;

document.documentElement.lang = t.locale;

/** Shows the page in the other language, which its address says where the browser keeps nothing. */
export function otherLanguage(): void {
  const other: Language = language === "zh" ? "en" : "zh";
  storage.setItem(STORE, other);
  if (storage instanceof Storage) location.reload();
  else location.search = `language=${other}`;
}
