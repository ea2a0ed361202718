// A picture by its address.

import type { Media } from "@stoa-dev/client";
import { c } from "../texts/chats";
import { openDialog } from "../ui/dialog";
import { Form, Input, SaveRow, textOf } from "../ui/form";

/** Asks for the address of a picture and for a caption. */
export const pictureDialog = (send: (media: Media, text: string) => Promise<void>) =>
  openDialog(c.sendPicture, (close) => {
    const submit = async (values: FormData) => {
      const alt = textOf(values, "alt");
      await send({ url: textOf(values, "url"), ...(alt && { alt }) }, textOf(values, "text"));
      close();
    };
    const fields = (
      <>
        <Input
          label={c.pictureURL}
          name="url"
          hint={c.pictureHint}
          type="url"
          required
          maxlength={2000}
          placeholder="https://"
          pattern="https://.+"
        />
        <Input label={c.pictureAlt} name="alt" hint={c.pictureAltHint} maxlength={500} />
        <Input label={c.pictureText} name="text" maxlength={4000} />
      </>
    );
    return (
      <Form class="stack" submit={submit} fields={fields}>
        <SaveRow close={close} text={c.send} />
      </Form>
    );
  });
