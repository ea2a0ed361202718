// The globals of a page for modules that read them. A test scripts the responses of the server. Such a module is imported dynamically, after this one.

const items = new Map<string, string>();
const storage = {
  getItem: (key: string) => items.get(key) ?? null,
  setItem: (key: string, value: string) => void items.set(key, value),
  removeItem: (key: string) => void items.delete(key),
};

/** The server of the page. respond returns the response to a request. */
export const server = {
  requests: [] as string[],
  respond: (): Response | Promise<Response> => Response.json({}),
};

/** Returns a problem document. */
export const refusal = (status: number, code: string) =>
  Response.json(
    { code, status, title: "Not now." },
    { status, headers: { "Content-Type": "application/problem+json" } },
  );

/** Stores the session of a user, as another tab does. */
export const logIn = (id: string) =>
  storage.setItem("stoa.session", JSON.stringify({ access: `${id}1`, refresh: `${id}2`, device: id, user: { id } }));

for (const [name, value] of Object.entries({
  localStorage: storage,
  sessionStorage: storage,
  location: { origin: "http://stoa.example.org", search: "" },
  document: { documentElement: {} },
  navigator: { languages: ["en"], onLine: true },
  fetch: async (url: string | URL) => {
    server.requests.push(String(url).replace("http://stoa.example.org", ""));
    return server.respond();
  },
}))
  Object.defineProperty(globalThis, name, { value, configurable: true });
