// Pictures of users and groups. The name is next to the picture, so screen readers skip it.

import { useSignal } from "@preact/signals";
import type { Profile } from "@stoa-dev/client";

const initial = (name: string) => ([...name][0] ?? "").toUpperCase();

/** The picture of a user, or else a letter. */
export function Face({ profile: p, large = false }: { profile: Profile; large?: boolean }) {
  const broken = useSignal("");
  const cls = large ? "face large" : "face";
  const { avatar } = p;
  if (!avatar || p.deleted || broken.value === avatar)
    return (
      <span class={p.deleted ? `${cls} gone` : cls} aria-hidden="true">
        {p.deleted ? "–" : initial(p.name)}
      </span>
    );
  const side = large ? 96 : 44;
  const src = (size: number) => `/v1/avatars/${avatar}/${size}`;
  return (
    <img
      class={cls}
      alt=""
      width={side}
      height={side}
      src={src(large ? 256 : 64)}
      srcset={large ? `${src(256)} 2x, ${src(512)} 4x` : `${src(64)} 1x, ${src(256)} 2x`}
      onError={() => (broken.value = avatar)}
    />
  );
}

/** A group's picture, or else the first letter of its name. */
export function GroupFace({ name, picture = "", large = false }: { name: string; picture?: string; large?: boolean }) {
  const broken = useSignal("");
  const cls = large ? "face group large" : "face group";
  if (!picture || broken.value === picture)
    return (
      <span class={cls} aria-hidden="true">
        {initial(name)}
      </span>
    );
  const side = large ? 96 : 44;
  const src = `/v1/group-pictures/${picture}/${large ? 256 : 64}`;
  return <img class={cls} alt="" width={side} height={side} src={src} onError={() => (broken.value = picture)} />;
}
