// The texts of the chats, in the language of the page.

import { t } from "../texts";
import { en, type ChatTexts } from "./chats/en";

/** The texts of the page Chats. */
export const c: ChatTexts = t.locale === "zh-CN" ? await import("./chats/zh").then((m) => m.zh, () => en) : en;
