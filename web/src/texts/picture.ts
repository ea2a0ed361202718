// The texts about the choice of a picture, in the language of the page. They are loaded with the pages that have one.

import { t } from "../texts";

const en = {
  choose: "Choose a picture",
  remove: "Remove",
  removeMine: "Remove my picture",
  removed: "Your picture is removed.",
  tooLarge: "A picture has at most 5 MB.",
  notShown: "This file is not a picture that can be shown here. Take a PNG, JPEG, GIF or WebP.",
  chosen: "The chosen picture",
  use: "Use this picture",
  changed: "Your picture is changed.",
  hint: "PNG, JPEG, GIF or WebP, at most 5 MB.",
};

const zh: typeof en = {
  choose: "选择图片",
  remove: "移除",
  removeMine: "移除我的头像",
  removed: "头像已移除。",
  tooLarge: "图片最大 5 MB。",
  notShown: "此文件不是可以显示的图片。请选择 PNG、JPEG、GIF 或 WebP。",
  chosen: "选中的图片",
  use: "使用这张图片",
  changed: "头像已更改。",
  hint: "PNG、JPEG、GIF 或 WebP，最大 5 MB。",
};

/** The texts about the choice of a picture. */
export const pic = t.locale === "zh-CN" ? zh : en;
