// Creation of a group, and the choice of friends for it.

import { Refused, type Friend } from "@stoa-dev/client";
import { calledBy } from "../person";
import { g } from "../texts/groups";
import { openDialog } from "../ui/dialog";
import { Face } from "../ui/face";
import { Form, Input, SaveRow, textOf } from "../ui/form";
import { ask, type ChatContext } from "./context";

/** Asks for a name and for friends, creates the group and opens its chat. */
export function newGroup(ctx: ChatContext): void {
  const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");
  let key = newKey(); // a second press creates no second group
  const create = async (values: FormData, close: () => void) => {
    const body = { name: textOf(values, "group_name"), members: values.getAll("friend") as string[] };
    const made = await ask(ctx, "groups.create", { body, key }).catch((err: Error) => {
      if (err.cause instanceof Refused && !err.cause.temporary) key = newKey(); // a refusal is stored under the old key
      throw err;
    });
    ctx.connection.groups.applyMembership(made);
    close();
    location.hash = `#/chats/g:${made.group.id}`;
  };
  void ctx.people.want().then(() => {
    const friends = friendsOf(ctx);
    openDialog(g.newGroup, (close) => (
      <Form
        class="stack"
        submit={(values) => create(values, close)}
        fields={<Input label={g.name} name="group_name" hint={g.nameHint} required maxlength={60} />}
      >
        <fieldset class="stack tight">
          <legend>{g.whom}</legend>
          {friends.length > 0 ? <FriendPicks friends={friends} /> : <p class="muted">{g.noFriends}</p>}
        </fieldset>
        <SaveRow close={close} text={g.create} />
      </Form>
    ))
      .querySelector("input")!
      .focus();
  }, ctx.failed);
}

/** The user's friends, by name. */
export const friendsOf = (ctx: ChatContext) =>
  ctx.people.friends.filter((f) => !f.user.deleted).sort((a, b) => calledBy(a).localeCompare(calledBy(b)));

/** A list of friends to choose from, with the field "friend". */
export const FriendPicks = ({ friends }: { friends: Friend[] }) => (
  <ul class="picks">
    {friends.map((f) => (
      <li key={f.user.id}>
        <label class="pick">
          <Face profile={f.user} />
          <span>{calledBy(f)}</span>
          <input type="checkbox" name="friend" value={f.user.id} />
        </label>
      </li>
    ))}
  </ul>
);
