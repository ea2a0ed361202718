// A picture of the user or of a group: choose, preview, store or remove it.

import { signal, useSignal } from "@preact/signals";
import type { Avatar, User } from "@stoa-dev/client";
import { render, type ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { h } from "./dom";
import { authed, json } from "./session";
import { t } from "./texts";
import { pic } from "./texts/picture";
import { Act } from "./ui/act";
import { Face } from "./ui/face";
import { Fault, useFault } from "./ui/form";

const MOST = 5 << 20; // bytes, the server's limit
const SIDE = 256; // px of the preview

/** The part of the profile with the picture. changed gets the new id, "" for none. */
export function pictureCard(me: User, changed: (avatar: string) => void) {
  const user = signal(me);
  const store = async (body: File) => changed((await json<Avatar>("/v1/me/avatar", { method: "PUT", body })).avatar);
  const remove = async () => {
    await authed("/v1/me/avatar", { method: "DELETE" });
    changed("");
  };
  const Mine = () => (
    <PictureChooser
      id="picture"
      face={<Face profile={user.value} large />}
      some={Boolean(user.value.avatar)}
      store={store}
      remove={remove}
      removeLabel={pic.removeMine}
    />
  );
  const el = h("div", { class: "embedded" });
  render(<Mine />, el);
  return { el, take: (u: User) => void (user.value = u) };
}

interface ChooserProps {
  id: string;
  face: ComponentChildren; // the present picture, or its replacement
  some: boolean; // there is a present picture
  store: (file: File) => Promise<void>;
  remove: () => Promise<void>;
  removeLabel: string;
}

/** Lets the user choose, preview and store a picture. */
export function PictureChooser({ id, face, some, store, remove, removeLabel }: ChooserProps) {
  const chosen = useSignal<{ file: File; image: ImageBitmap } | undefined>(undefined);
  const said = useSignal("");
  const { fault, failed } = useFault();
  const input = useRef<HTMLInputElement>(null);
  const use = useRef<HTMLDivElement>(null);
  const moved = useRef(false); // the buttons change under the focus
  useLayoutEffect(() => {
    if (chosen.value) use.current!.querySelector("button")!.focus();
    else if (moved.current) input.current!.focus();
    moved.current = chosen.value !== undefined;
  }, [chosen.value]);

  const look = async () => {
    const [file] = input.current!.files ?? [];
    input.current!.value = fault.value = said.value = "";
    if (!file) return;
    if (file.size > MOST) return void (fault.value = pic.tooLarge);
    try {
      chosen.value = { file, image: await createImageBitmap(file) };
    } catch {
      fault.value = pic.notShown;
    }
  };
  const keep = async () => {
    fault.value = "";
    await store(chosen.peek()!.file);
    said.value = pic.changed;
    chosen.value = undefined;
  };
  const drop = async () => {
    await remove();
    said.value = pic.removed;
    input.current?.focus(); // the dialog may be closed
  };
  return (
    <div class="picture-row">
      <div class="picture">{chosen.value ? <Preview image={chosen.value.image} /> : face}</div>
      <div class="stack tight">
        <p class="hint">{pic.hint}</p>
        {chosen.value ? (
          <div key="chosen" class="row" ref={use}>
            <Act kind="primary" run={keep} failed={failed}>
              {pic.use}
            </Act>
            <button type="button" class="link" onClick={() => (chosen.value = undefined)}>
              {t.words.cancel}
            </button>
          </div>
        ) : (
          <div key="choose" class="row">
            <input
              type="file"
              id={id}
              class="sr"
              accept="image/png,image/jpeg,image/gif,image/webp"
              ref={input}
              onChange={() => void look()}
            />
            <label for={id} class="secondary">
              {pic.choose}
            </label>
            {some && (
              <Act kind="link" run={drop} failed={failed} label={removeLabel}>
                {pic.remove}
              </Act>
            )}
          </div>
        )}
        <span class="saved" role="status">
          {said.value}
        </span>
        <Fault text={fault} />
      </div>
    </div>
  );
}

// Preview shows a picture in the server's crop: a square from its middle.
function Preview({ image }: { image: ImageBitmap }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const { width, height } = image;
    const side = Math.min(width, height);
    const context = canvas.current!.getContext("2d")!;
    context.drawImage(image, (width - side) / 2, (height - side) / 2, side, side, 0, 0, SIDE, SIDE);
    return () => image.close();
  }, []);
  return <canvas class="face large" width={SIDE} height={SIDE} role="img" aria-label={pic.chosen} ref={canvas} />;
}
