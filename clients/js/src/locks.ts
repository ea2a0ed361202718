const tails = new Map<string, Promise<unknown>>();

/**
 * Runs fn while no other call runs under the same name. The lock covers all tabs of a browser that has Web Locks,
 * otherwise this process.
 */
export function exclusive<T>(name: string, fn: () => Promise<T>): Promise<T> {
  const locks = (globalThis.navigator as Navigator | undefined)?.locks;
  if (locks) return locks.request(name, fn) as Promise<T>;
  const turn = (tails.get(name) ?? Promise.resolve()).then(fn, fn);
  const tail = turn.then(
    () => {},
    () => {},
  );
  tails.set(name, tail);
  void tail.then(() => tails.get(name) === tail && tails.delete(name));
  return turn;
}
