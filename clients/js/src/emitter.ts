type Listener<T> = (value: T) => void;

/** Calls listeners by the name of an event. */
export class Emitter<Events extends object> {
  private readonly listeners = new Map<keyof Events, Set<Listener<never>>>();

  /** Calls fn with each event of a name, until the caller calls the returned function. */
  on<K extends keyof Events>(name: K, fn: Listener<Events[K]>): () => void {
    let set = this.listeners.get(name);
    if (!set) this.listeners.set(name, (set = new Set()));
    const own: Listener<Events[K]> = (value) => fn(value); // the same function may listen twice
    set.add(own as Listener<never>);
    return () => void set.delete(own as Listener<never>);
  }

  protected emit<K extends keyof Events>(name: K, value: Events[K]): void {
    for (const fn of [...(this.listeners.get(name) ?? [])] as Listener<Events[K]>[]) {
      try {
        fn(value);
      } catch (err) {
        // An error of a listener must not stop the other listeners.
        queueMicrotask(() => {
          throw err;
        });
      }
    }
  }
}
