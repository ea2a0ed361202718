// The texts about pushes, in the language of the page. They are loaded with the profile, not with the page.

import { t } from "../texts";

const en = {
  title: "Notifications",
  about: "This device tells you of messages, requests and notices while you have Stoa open nowhere.",
  enable: "Turn on for this device",
  disable: "Turn off for this device",
  denied: "Your browser blocks notifications from here. Allow them in its settings for this site.",
  unsupported: "This browser cannot be told while the page is closed. On a phone, add the page to the home screen first.",
  waits: "Waiting for the browser's push service …",
  messages: "Messages",
  requests: "Friend and group requests",
  notices: "Notices",
  previews: "Show what messages say",
};

const zh: typeof en = {
  title: "通知",
  about: "你没有在任何地方打开 Stoa 时，此设备会提醒你有新消息、申请和通知。",
  enable: "在此设备上开启",
  disable: "在此设备上关闭",
  denied: "浏览器禁止了本站的通知，请在浏览器的网站设置中允许。",
  unsupported: "此浏览器在页面关闭后无法接收通知。在手机上，请先将页面添加到主屏幕。",
  waits: "正在等待浏览器的推送服务……",
  messages: "消息",
  requests: "好友和入群申请",
  notices: "通知",
  previews: "显示消息内容",
};

/** The texts about pushes. */
export const p = t.locale === "zh-CN" ? zh : en;
