// The form for danmaku, and how this device shows them.

import { useSignal } from "@preact/signals";
import type { Danmaku as Comment, DanmakuNew } from "@stoa-dev/client";
import { useRef } from "preact/hooks";
import { taken } from "../form";
import type { RoomPlayer } from "../state/player";
import { r } from "../texts/rooms";
import { Twice } from "../ui/act";
import { Form } from "../ui/form";
import type { Danmaku } from "./danmaku";
import type { Seat } from "./seat";

const COLORS = {
  white: 0xffffff,
  red: 0xff6b6b,
  yellow: 0xffe066,
  green: 0x8ce99a,
  blue: 0x74c0fc,
  pink: 0xfaa2c1,
};
const MODES = ["scroll", "top", "bottom"] as const;
const SIZES = ["normal", "small", "large"] as const;

interface ShootProps {
  seat: Seat;
  player: RoomPlayer;
  danmaku: Danmaku;
  may: boolean; // the caller may send danmaku
  moderate: boolean;
  failed: (err: unknown) => void;
}

export function Shoot({ seat, player, danmaku, may, moderate, failed }: ShootProps) {
  const text = useRef<HTMLInputElement>(null);
  const color = useSignal<keyof typeof COLORS>("white");
  const mode = useSignal<(typeof MODES)[number]>("scroll");
  const size = useSignal<(typeof SIZES)[number]>("normal");
  const on = useSignal(danmaku.on);

  const send = async () => {
    const field = text.current!;
    const said = field.value.trim();
    if (!said) return;
    const { item, position } = player.moment;
    const style = { color: COLORS[color.peek()], mode: mode.peek(), size: size.peek() };
    const body: DanmakuNew = { text: said, position, ...style, ...(item && { item }) };
    danmaku.live(await taken(field, () => seat.ask<Comment>("/danmaku", { method: "POST", body })));
  };
  const toggle = (shows: boolean) => {
    danmaku.set({ on: shows });
    on.value = shows;
  };
  return (
    <div class="shoot">
      <Form class="say" hidden={!may} submit={send}>
        <div class="say-row">
          <input
            name="danmaku"
            maxlength={100}
            autocomplete="off"
            aria-label={r.danmaku.text}
            placeholder={r.danmaku.placeholder}
            ref={text}
          />
          <button type="submit" class="primary small">
            {r.danmaku.send}
          </button>
        </div>
        <details class="style">
          <summary>{r.danmaku.style}</summary>
          <div class="row">
            <Choice
              label={r.danmaku.color}
              name="color"
              values={Object.keys(COLORS) as (keyof typeof COLORS)[]}
              texts={r.danmaku.colors}
              choose={(v) => (color.value = v)}
            />
            <Choice
              label={r.danmaku.mode}
              name="mode"
              values={MODES}
              texts={r.danmaku.modes}
              choose={(v) => (mode.value = v)}
            />
            <Choice
              label={r.danmaku.size}
              name="size"
              values={SIZES}
              texts={r.danmaku.sizes}
              choose={(v) => (size.value = v)}
            />
          </div>
        </details>
      </Form>
      <div class="row">
        <label class="switch">
          <input
            type="checkbox"
            name="danmaku_on"
            checked={on.value}
            onChange={(e) => toggle(e.currentTarget.checked)}
          />
          <span>{r.danmaku.on}</span>
        </label>
        <label class="opacity">
          <span>{r.danmaku.opacity}</span>
          <input
            type="range"
            name="opacity"
            min={10}
            max={100}
            step={5}
            aria-label={r.danmaku.opacity}
            disabled={!on.value}
            defaultValue={String(danmaku.opacity * 100)}
            onInput={(e) => danmaku.set({ opacity: Number(e.currentTarget.value) / 100 })}
          />
        </label>
        {moderate && (
          <Twice
            text={r.danmaku.clear}
            sure={r.danmaku.clearSure}
            run={() => seat.ask("/danmaku", { method: "DELETE" })}
            failed={failed}
          />
        )}
      </div>
    </div>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  name: string;
  values: readonly T[];
  texts: Record<T, string>;
  choose: (value: T) => void;
}

function Choice<T extends string>({ label, name, values, texts, choose }: ChoiceProps<T>) {
  return (
    <select name={name} aria-label={label} onChange={(e) => choose(e.currentTarget.value as T)}>
      {values.map((value) => (
        <option key={value} value={value}>
          {texts[value]}
        </option>
      ))}
    </select>
  );
}
