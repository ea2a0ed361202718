import type { GroupMembership, GroupSelf } from "./wire.js";

/** A group of the user's, and the user's place in it. */
export type OwnGroup = GroupMembership & { me: GroupSelf };

/**
 * Returns what is newest of two documents of one group, from responses and `group.mine`. The version of the group orders the group
 * and the member's role, nickname and mute; `me.version` orders the member's own remark, notify and seen.
 */
export function newestOf(known: OwnGroup, got: OwnGroup): OwnGroup {
  const { group, me } = got.group.version >= known.group.version ? got : known;
  const { remark, notify, seen, version } = got.me.version >= known.me.version ? got.me : known.me;
  const { remark: _, seen: __, ...rest } = me;
  return { group, me: { ...rest, notify, version, ...(remark !== undefined && { remark }), ...(seen !== undefined && { seen }) } };
}
