// Small pictures next to words of the same meaning; hidden from screen readers.

import { signs } from "../chat/icons";
import { shapes } from "../dom";

/** A picture of 24 by 24 from the data of a path. */
const Drawing = ({ d }: { d: string }) => (
  <svg viewBox="0 0 24 24" class="icon" aria-hidden="true">
    <path d={d} />
  </svg>
);

export const Icon = ({ name }: { name: keyof typeof shapes }) => <Drawing d={shapes[name]} />;

export type SignName = keyof typeof signs;

export const Sign = ({ name }: { name: SignName }) => <Drawing d={signs[name]} />;
