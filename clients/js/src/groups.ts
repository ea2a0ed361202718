import type { GroupMembership, GroupSelf } from "./wire.js";

/** One of the user's groups, with the user's membership. */
export type OwnGroup = GroupMembership & { me: GroupSelf };

/**
 * Returns the newest parts of two documents of one group, from responses and `group.mine`. The version of the group
 * orders the group and the member's role, nickname and mute. `me.version` orders the member's own remark, notify and
 * seen.
 */
export function newestOf(known: OwnGroup, got: OwnGroup): OwnGroup {
  const { group, me } = got.group.version >= known.group.version ? got : known;
  const { remark, notify, seen, version } = got.me.version >= known.me.version ? got.me : known.me;
  const { remark: _, seen: __, ...rest } = me;
  return {
    group,
    me: { ...rest, notify, version, ...(remark !== undefined && { remark }), ...(seen !== undefined && { seen }) },
  };
}
