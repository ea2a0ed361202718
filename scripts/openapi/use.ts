// A program that uses the generated types. It compiles only while generators can use the description of the API.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

const stoa = createClient<paths>({ baseUrl: "http://127.0.0.1:8080" });

export async function checkIn(token: string): Promise<number> {
  const { data, error } = await stoa.POST("/v1/checkin", {
    params: { header: { "Idempotency-Key": crypto.randomUUID() } },
    headers: { Authorization: `Bearer ${token}` },
    body: { words: 12 },
  });
  if (error) throw new Error(explain(error.code));
  return data.streak;
}

// The codes are a union: an unknown code does not compile.
function explain(code: components["schemas"]["Problem"]["code"]): string {
  return code === "checkin.day_closed" ? "That day is over." : code;
}

// Lists are arrays and not null.
export async function names(): Promise<string[]> {
  const { data } = await stoa.GET("/v1/friends", {});
  return data?.friends.map((f) => f.remark ?? f.user.name) ?? [];
}

// The type of an event determines the type of its data.
export function told(e: components["schemas"]["Event"]): string {
  switch (e.type) {
    case "checkin.marked":
      return `day ${e.data.streak}`;
    case "friend.requested":
      return `${e.data.from.name} asks`;
    default:
      return e.type;
  }
}
