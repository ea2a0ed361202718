/** Stores JSON values by their keys, beyond the life of a page. */
export interface Storage {
  /** The entries whose keys begin with prefix, in the order of the keys. */
  entries(prefix: string): Promise<[string, unknown][]>;
  set(key: string, value: unknown): Promise<void>;
  delete(key: string): Promise<void>;
}

/** Stores values in memory, until the program ends. */
export class MemoryStorage implements Storage {
  private readonly values = new Map<string, string>();

  async entries(prefix: string): Promise<[string, unknown][]> {
    return [...this.values]
      .filter(([key]) => key.startsWith(prefix))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, text]) => [key, JSON.parse(text)]);
  }

  async set(key: string, value: unknown): Promise<void> {
    this.values.set(key, JSON.stringify(value));
  }

  async delete(key: string): Promise<void> {
    this.values.delete(key);
  }
}

/** Stores values in the browser's localStorage, or in a similar object. */
export class WebStorage implements Storage {
  constructor(
    private readonly area: globalThis.Storage = localStorage,
    private readonly name = "stoa",
  ) {}

  async entries(prefix: string): Promise<[string, unknown][]> {
    const begin = `${this.name}:${prefix}`;
    const keys: string[] = [];
    for (let i = 0; i < this.area.length; i++) {
      const key = this.area.key(i);
      if (key?.startsWith(begin)) keys.push(key);
    }
    return keys.sort().map((key) => [key.slice(this.name.length + 1), JSON.parse(this.area.getItem(key) ?? "null")]);
  }

  async set(key: string, value: unknown): Promise<void> {
    this.area.setItem(`${this.name}:${key}`, JSON.stringify(value));
  }

  async delete(key: string): Promise<void> {
    this.area.removeItem(`${this.name}:${key}`);
  }
}

const table = "values";

const ended = ["InvalidStateError", "UnknownError"]; // names of the errors of a closed connection

/** Stores values in IndexedDB. */
export class IndexedStorage implements Storage {
  private db: Promise<IDBDatabase> | undefined;

  private constructor(
    private readonly name: string,
    private readonly factory: IDBFactory,
  ) {}

  /** Opens the database of a name. It fails if the browser forbids it. */
  static async open(name = "stoa", factory: IDBFactory = indexedDB): Promise<IndexedStorage> {
    const storage = new IndexedStorage(name, factory);
    await storage.use(async () => {});
    return storage;
  }

  private async connect(): Promise<IDBDatabase> {
    const asked = this.factory.open(this.name, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(table);
    const db = await done(asked);
    db.onversionchange = () => db.close();
    return db;
  }

  // A browser may close the connection while the page is in the background. Then it is opened again.
  private async use<T>(fn: (db: IDBDatabase) => Promise<T>): Promise<T> {
    for (let again = false; ; again = true) {
      const db = (this.db ??= this.connect());
      try {
        return await fn(await db);
      } catch (err) {
        if (this.db === db) this.db = undefined;
        if (again || !ended.includes((err as Error).name)) throw err;
      }
    }
  }

  entries(prefix: string): Promise<[string, unknown][]> {
    return this.use(async (db) => {
      const values = db.transaction(table).objectStore(table);
      const range = IDBKeyRange.bound(prefix, prefix + "\uffff");
      const [keys, list] = await Promise.all([done(values.getAllKeys(range)), done(values.getAll(range))]);
      return keys.map((key, i) => [String(key), list[i]]);
    });
  }

  set(key: string, value: unknown): Promise<void> {
    return this.change((values) => values.put(value, key));
  }

  delete(key: string): Promise<void> {
    return this.change((values) => values.delete(key));
  }

  // A change is durable when its transaction is complete, not when the request is done.
  private change(fn: (values: IDBObjectStore) => void): Promise<void> {
    const kept = (db: IDBDatabase) =>
      new Promise<void>((resolve, reject) => {
        const tx = db.transaction(table, "readwrite", { durability: "strict" });
        tx.oncomplete = () => resolve();
        tx.onabort = tx.onerror = () => reject(tx.error ?? new Error("IndexedDB did not keep a value."));
        fn(tx.objectStore(table));
      });
    return this.use(kept);
  }
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("IndexedDB refused."));
  });
}

/** Returns the best available storage: IndexedDB, localStorage, or memory, which ends with the page. */
export async function openStorage(name = "stoa"): Promise<Storage> {
  try {
    return await IndexedStorage.open(name);
  } catch {
    // Some browsers have it and refuse it, in private windows for example.
  }
  try {
    const probe = `${name}:probe`;
    localStorage.setItem(probe, "");
    localStorage.removeItem(probe);
    return new WebStorage(localStorage, name);
  } catch {
    return new MemoryStorage();
  }
}
