// The language of the page. texts/en.ts has every text. Each other language is a file with the same keys, which is
// loaded only if it is used.

import { storage } from "./storage";
import { en, type Texts } from "./texts/en";

const STORE = "stoa.language";
const languages = ["en", "zh"] as const;
type Language = (typeof languages)[number];

/** The user's choice on this page, or else the first of the browser's languages that the page has. */
function chosen(): Language {
  for (const tag of [storage.getItem(STORE) ?? new URLSearchParams(location.search).get("language") ?? "", ...navigator.languages]) {
    const found = languages.find((l) => l === tag.toLowerCase().split("-")[0]);
    if (found) return found;
  }
  return "en";
}

const language = chosen();

/** The texts of the page. */
export const t: Texts = language === "zh" ? await import("./texts/zh").then((m) => m.zh, () => en) : en;

document.documentElement.lang = t.locale;

/** Shows the page in the other language. Without storage, the address states the language. */
export function otherLanguage(): void {
  const other: Language = language === "zh" ? "en" : "zh";
  storage.setItem(STORE, other);
  if (storage instanceof Storage) location.reload();
  else location.search = `language=${other}`;
}
