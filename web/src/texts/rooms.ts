// The texts of rooms, in the language of the page.

import { t } from "../texts";
import { en, type RoomTexts } from "./rooms/en";

/** The texts of rooms. */
export const r: RoomTexts = t.locale === "zh-CN" ? await import("./rooms/zh").then((m) => m.zh, () => en) : en;
