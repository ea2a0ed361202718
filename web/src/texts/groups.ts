// The texts of groups and of files between users, in the language of the page.

import { t } from "../texts";
import { en, type GroupTexts } from "./groups/en";

/** The texts of groups. */
export const g: GroupTexts = t.locale === "zh-CN" ? await import("./groups/zh").then((m) => m.zh, () => en) : en;
