// The worker that shows pushes while the page is closed, served as /sw.js. It stores and loads nothing. A push is an
// api.Push, in the user's language.

interface Push {
  v: number;
  what: "messages" | "notice";
  tag: string;
  title: string;
  body?: string;
  lang: string;
  at: number;
  chat?: string;
  kind?: string;
}

// The type library for pages lacks the types of workers.
interface Waits extends Event {
  waitUntil(done: Promise<unknown>): void;
}
interface Page {
  url: string;
  focus(): Promise<Page>;
  navigate(url: string): Promise<Page | null>;
}
interface Worker {
  registration: ServiceWorkerRegistration;
  clients: {
    matchAll(of: { type: "window"; includeUncontrolled: boolean }): Promise<Page[]>;
    openWindow(url: string): Promise<Page | null>;
  };
  addEventListener(type: "push", fn: (e: Waits & { data: { json(): unknown } | null }) => void): void;
  addEventListener(type: "notificationclick", fn: (e: Waits & { notification: Notification }) => void): void;
}
const worker = self as unknown as Worker;

/** The address of the subject of a push on the page. */
function place(p: Push): string {
  if (p.what === "messages" && p.chat) return `/#/chats/${p.chat.startsWith("u:") ? p.chat.slice(2) : p.chat}`;
  return p.kind?.startsWith("friend.") ? "/#/friends" : "/#/";
}

worker.addEventListener("push", (e) => {
  const p = e.data?.json() as Push | undefined;
  if (!p?.title) return;
  // renotify is missing in the type library. With it, another push of the same chat makes a sound again.
  const options: NotificationOptions & { renotify: boolean; timestamp: number } = {
    body: p.body ?? "",
    tag: p.tag,
    lang: p.lang,
    data: place(p),
    renotify: true,
    timestamp: p.at,
  };
  e.waitUntil(worker.registration.showNotification(p.title, options));
});

worker.addEventListener("notificationclick", (e) => {
  e.notification.close();
  const to = new URL(String(e.notification.data), location.origin).href;
  e.waitUntil(
    worker.clients.matchAll({ type: "window", includeUncontrolled: true }).then(async (pages) => {
      const open = pages.find((page) => new URL(page.url).origin === location.origin);
      if (!open) return worker.clients.openWindow(to);
      await open.focus();
      // A page that this worker does not control yet cannot navigate.
      return open.navigate(to).catch(() => worker.clients.openWindow(to));
    }),
  );
});

export {};
