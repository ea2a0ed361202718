// What the browser keeps for the page. Where it is told to keep nothing, the page remembers, for as long as it is open.

type Kept = Pick<Storage, "getItem" | "setItem" | "removeItem">;

function of(area: () => Kept): Kept {
  try {
    return area();
  } catch {
    const kept = new Map<string, string>();
    return { getItem: (key) => kept.get(key) ?? null, setItem: (key, text) => void kept.set(key, text), removeItem: (key) => void kept.delete(key) };
  }
}

/** What all tabs share. */
export const storage = of(() => localStorage);

/** What this tab has. */
export const tabStorage = of(() => sessionStorage);
