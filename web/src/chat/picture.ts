// A picture by its address.

import type { Media } from "@stoa-dev/client";
import { dialog } from "../dialog";
import { h } from "../dom";
import { field, form } from "../form";
import { t } from "../texts";
import { c } from "../texts/chats";

/** Asks for the address of a picture and for a caption. */
export function pictureDialog(send: (media: Media, text: string) => Promise<void>): void {
  const url = field(
    c.pictureURL,
    {
      name: "url",
      type: "url",
      required: true,
      maxlength: 2000,
      autocomplete: "off",
      placeholder: "https://",
      pattern: "https://.+",
    },
    c.pictureHint,
  );
  const alt = field(c.pictureAlt, { name: "alt", maxlength: 500, autocomplete: "off" }, c.pictureAltHint);
  const text = field(c.pictureText, { name: "text", maxlength: 4000, autocomplete: "off" });
  dialog(c.sendPicture, (close) => [
    form(
      { class: "stack" },
      [url, alt, text],
      async () => {
        await send(
          { url: url.input.value.trim(), ...(alt.input.value && { alt: alt.input.value }) },
          text.input.value.trim(),
        );
        close();
      },
      h(
        "div",
        { class: "row" },
        h("button", { type: "submit", class: "primary" }, c.send),
        h("button", { type: "button", class: "link", onclick: close }, t.words.cancel),
      ),
    ),
  ]);
}
