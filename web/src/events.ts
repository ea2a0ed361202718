// Server-sent events of a fetch. EventSource cannot send a bearer token. This file
// needs nothing else and may be copied; docs/events.md has it in use.

// The server sends a comment every 15 s; after two that did not come, the
// connection is gone though nobody said so.
const silence = 40_000;

/** The data of each event of an answer of the type text/event-stream, until the server ends it. */
export async function* events<T>(res: Response): AsyncGenerator<T, void> {
  if (!res.body) return;
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const dead = setTimeout(() => void reader.cancel(), silence);
      const { done, value } = await reader.read().finally(() => clearTimeout(dead));
      if (done) return;
      // A line may end in \r\n, \n or \r; this server ends them in \n.
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const data = block
          .split("\n")
          .filter((line) => line.startsWith("data:"))
          .map((line) => line.slice(5).trimStart())
          .join("\n");
        if (data) yield JSON.parse(data) as T;
      }
    }
  } finally {
    await reader.cancel().catch(() => {}); // whoever stops reading hangs up
  }
}
