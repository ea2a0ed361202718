// What the chats say, in the language of the page.

import { t } from "../texts";
import { en, type ChatTexts } from "./chats/en";

/** What the page Chats says. */
export const c: ChatTexts = t.locale === "zh-CN" ? await import("./chats/zh").then((m) => m.zh, () => en) : en;
