// A picture of the user or of a group: choose, preview, store or remove it.

import type { Avatar, User } from "@stoa-dev/client";
import { act } from "./buttons";
import { h, put } from "./dom";
import { say } from "./form";
import { face } from "./person";
import { authed, Ended, json } from "./session";
import { t } from "./texts";
import { pic } from "./texts/picture";

const MOST = 5 << 20; // bytes, the server's limit

/** The target of a chosen picture. */
interface Chosen {
  face: () => HTMLElement; // the present picture, or its replacement
  there: () => boolean;
  keep: (file: File) => Promise<void>;
  remove: () => Promise<void>;
  removeLabel?: string;
}

/** The part of the profile with the picture. changed gets the new id, "" for none. */
export function pictureCard(me: User, changed: (avatar: string) => void) {
  const chooser = pictureChooser({
    face: () => face(me, true),
    there: () => Boolean(me.avatar),
    keep: async (file) => changed((await json<Avatar>("/v1/me/avatar", { method: "PUT", body: file })).avatar),
    remove: async () => {
      await authed("/v1/me/avatar", { method: "DELETE" });
      changed("");
    },
    removeLabel: pic.removeMine,
  });
  return {
    el: chooser.el,
    take: (u: User) => {
      const same = u.avatar === me.avatar && u.name === me.name;
      me = u;
      if (!same) chooser.show();
    },
  };
}

let choosers = 0;

/** Lets the user choose, preview and store a picture. show draws the present one. */
export function pictureChooser(of: Chosen): { el: HTMLElement; show: () => void } {
  const id = `picture${choosers++ || ""}`;
  const shown = h("div", { class: "picture" });
  const buttons = h("div", { class: "row" });
  const fault = h("p", { class: "fault form-fault", role: "alert" });
  const said = h("span", { class: "saved", role: "status" });
  const input = h("input", {
    type: "file",
    id,
    class: "sr",
    accept: "image/png,image/jpeg,image/gif,image/webp",
    onchange: () => void look(),
  });
  const choose = h("label", { for: id, class: "secondary" }, pic.choose);

  const failed = (err: unknown) => {
    if (!(err instanceof Ended)) fault.textContent = say(err);
  };

  function show(): void {
    put(shown, of.face());
    put(
      buttons,
      input,
      choose,
      of.there() &&
        act(
          pic.remove,
          "link",
          async () => {
            await of.remove();
            done(pic.removed);
          },
          failed,
          of.removeLabel,
        ),
    );
    input.value = "";
  }

  function done(text: string): void {
    said.textContent = text;
    show();
    input.focus();
  }

  // look previews the chosen file in the server's crop: a square from its middle.
  async function look(): Promise<void> {
    const file = input.files?.[0];
    fault.textContent = said.textContent = "";
    if (!file) return;
    if (file.size > MOST) return void (fault.textContent = pic.tooLarge);
    let image: ImageBitmap;
    try {
      image = await createImageBitmap(file);
    } catch {
      return void (fault.textContent = pic.notShown);
    }
    const side = Math.min(image.width, image.height);
    const canvas = h("canvas", { class: "face large", width: 256, height: 256, role: "img", "aria-label": pic.chosen });
    canvas
      .getContext("2d")!
      .drawImage(image, (image.width - side) / 2, (image.height - side) / 2, side, side, 0, 0, 256, 256);
    image.close();
    put(shown, canvas);
    const use = act(
      pic.use,
      "primary",
      async () => {
        fault.textContent = "";
        await of.keep(file);
        done(pic.changed);
      },
      failed,
    );
    put(
      buttons,
      use,
      h("button", { type: "button", class: "link", onclick: () => (show(), input.focus()) }, t.words.cancel),
    );
    use.focus();
  }

  show();
  return {
    el: h(
      "div",
      { class: "picture-row" },
      shown,
      h("div", { class: "stack tight" }, h("p", { class: "hint" }, pic.hint), buttons, said, fault),
    ),
    show,
  };
}
