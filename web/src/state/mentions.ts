// Mentions in a text: the part after "@", and the members that match it.

export interface Candidate {
  id: string; // a user's id, or "all"
  name: string;
  note: string; // another name of the same user
}

/** The text between "@" and the cursor; undefined if the user writes no mention there. */
export function mentionAt(text: string, start: number, end = start): string | undefined {
  return start === end ? /(?:^|[^\w@])@([^\s@]{0,40})$/.exec(text.slice(0, start))?.[1] : undefined;
}

/** The candidates with a name, or a word of one, that begins with the query. */
export function matching(all: Candidate[], query: string): Candidate[] {
  const wanted = query.toLowerCase();
  const begins = (text: string) => [text, ...text.split(/\s+/)].some((word) => word.toLowerCase().startsWith(wanted));
  return all.filter((who) => begins(who.name) || begins(who.note));
}

/** The chosen users whose names are in a text. */
export function mentionedIn(text: string, chosen: ReadonlyMap<string, string>): string[] {
  return [...chosen].filter(([name]) => text.includes("@" + name)).map(([, id]) => id);
}
