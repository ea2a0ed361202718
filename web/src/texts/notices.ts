// The texts of notices, in the language of the page. They are loaded with the page Notices.

import { t } from "../texts";

const en = {
  title: "Notices",
  none: "There is nothing to tell you yet.",
  somebody: "Somebody",
  says: {
    "friend.requested": (who: string) => `${who} asks for your friendship.`,
    "friend.accepted": (who: string) => `${who} has accepted your request.`,
    "friend.refused": (who: string) => `${who} has refused your request.`,
    "group.added": (who: string, group: string) => `${who} has added you to ${group}.`,
    "group.removed": (_: string, group: string) => `You were removed from ${group}.`,
    "group.dissolved": (_: string, group: string) => `${group} was dissolved.`,
    "group.requested": (who: string, group: string) => `${who} asks to join ${group}.`,
    "group.accepted": (_: string, group: string) => `You are a member of ${group} now.`,
    "group.refused": (_: string, group: string) => `Your request to join ${group} was refused.`,
    "account.login": () => "A device has logged in to your account.",
    "account.password": () => "Your password was changed.",
    "account.email": () => "Your e-mail address was changed.",
    "account.restored": () => "Your account is restored.",
    "account.reused": () => "A device was logged out: a token of it was used twice.",
  } as Record<string, (who: string, group: string) => string>,
  other: "Something has happened that this page has no words for.",
  more: "Read more",
  unread: "new",
};

const zh: typeof en = {
  title: "通知",
  none: "还没有通知。",
  somebody: "某人",
  says: {
    "friend.requested": (who) => `${who} 请求添加你为好友。`,
    "friend.accepted": (who) => `${who} 接受了你的好友申请。`,
    "friend.refused": (who) => `${who} 拒绝了你的好友申请。`,
    "group.added": (who, group) => `${who} 将你加入了 ${group}。`,
    "group.removed": (_, group) => `你已被移出 ${group}。`,
    "group.dissolved": (_, group) => `${group} 已解散。`,
    "group.requested": (who, group) => `${who} 申请加入 ${group}。`,
    "group.accepted": (_, group) => `你已成为 ${group} 的成员。`,
    "group.refused": (_, group) => `你加入 ${group} 的申请被拒绝了。`,
    "account.login": () => "有设备登录了你的账号。",
    "account.password": () => "你的密码已更改。",
    "account.email": () => "你的邮箱地址已更改。",
    "account.restored": () => "你的账号已恢复。",
    "account.reused": () => "一台设备已被登出：它的令牌被使用了两次。",
  },
  other: "发生了此页面无法描述的事情。",
  more: "查看详情",
  unread: "新",
};

/** The texts of notices. */
export const n = t.locale === "zh-CN" ? zh : en;
