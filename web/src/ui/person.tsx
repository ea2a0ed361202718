// Users in lists.

import type { Profile } from "@stoa-dev/client";
import { Fragment, type ComponentChildren } from "preact";
import { nameOf } from "../person";
import { Face } from "./face";

interface PersonProps {
  user: Profile;
  name?: ComponentChildren;
  lines: ComponentChildren[];
  children?: ComponentChildren; // actions
}

/** A row of a list: picture, name, further lines, and actions. */
export const Person = ({ user, name = nameOf(user), lines, children }: PersonProps) => (
  <li class={user.deleted ? "person gone" : "person"} data-user={user.id}>
    <Face profile={user} />
    <div class="person-text">
      <p class="person-name">{name}</p>
      {lines.map((line, i) => (
        <Fragment key={i}>{line && <p class="muted">{line}</p>}</Fragment>
      ))}
    </div>
    {children && <div class="row person-actions">{children}</div>}
  </li>
);
