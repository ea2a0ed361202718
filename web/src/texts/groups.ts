// What groups and files between users say, in the language of the page.

import { t } from "../texts";
import { en, type GroupTexts } from "./groups/en";

/** What the page says of groups. */
export const g: GroupTexts = t.locale === "zh-CN" ? await import("./groups/zh").then((m) => m.zh, () => en) : en;
