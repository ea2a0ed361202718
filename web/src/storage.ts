// The page's storage in the browser. If the browser forbids it, values are stored in memory while the page is open.

type Kept = Pick<Storage, "getItem" | "setItem" | "removeItem">;

function of(area: () => Kept): Kept {
  try {
    return area();
  } catch {
    const kept = new Map<string, string>();
    return {
      getItem: (key) => kept.get(key) ?? null,
      setItem: (key, text) => void kept.set(key, text),
      removeItem: (key) => void kept.delete(key),
    };
  }
}

/** Shared by all tabs. */
export const storage = of(() => localStorage);

/** Only for this tab. */
export const tabStorage = of(() => sessionStorage);
