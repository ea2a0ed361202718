// Time zones, chosen by typing: a city, a country's zone in words, or an offset.

import { h } from "./dom";
import { field, type Field } from "./form";
import { t } from "./texts";

// Browsers list some zones under names that IANA has replaced.
const renamed: Record<string, string> = {
  "Africa/Asmera": "Africa/Asmara",
  "America/Buenos_Aires": "America/Argentina/Buenos_Aires",
  "America/Catamarca": "America/Argentina/Catamarca",
  "America/Coral_Harbour": "America/Atikokan",
  "America/Cordoba": "America/Argentina/Cordoba",
  "America/Godthab": "America/Nuuk",
  "America/Indianapolis": "America/Indiana/Indianapolis",
  "America/Jujuy": "America/Argentina/Jujuy",
  "America/Louisville": "America/Kentucky/Louisville",
  "America/Mendoza": "America/Argentina/Mendoza",
  "Asia/Calcutta": "Asia/Kolkata",
  "Asia/Katmandu": "Asia/Kathmandu",
  "Asia/Rangoon": "Asia/Yangon",
  "Asia/Saigon": "Asia/Ho_Chi_Minh",
  "Atlantic/Faeroe": "Atlantic/Faroe",
  "Europe/Kiev": "Europe/Kyiv",
  "Pacific/Enderbury": "Pacific/Kanton",
  "Pacific/Ponape": "Pacific/Pohnpei",
  "Pacific/Truk": "Pacific/Chuuk",
};

const present = (zone: string) => renamed[zone] ?? zone;

/** The zone of this device; UTC if the browser does not state it. */
export function deviceZone(): string {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone && zone !== "Etc/Unknown" ? present(zone) : "UTC";
}

/** The zones to choose from, including `also`. */
export function zones(...also: string[]): string[] {
  const known = typeof Intl.supportedValuesOf === "function" ? Intl.supportedValuesOf("timeZone") : [];
  return [...new Set([...known.map(present), "UTC", ...also])].sort();
}

/** The city of a zone: "New York". */
export const place = (zone: string) => (zone.split("/").pop() ?? zone).replaceAll("_", " ");

// The description of a zone: its present offset and its name, "UTC+08:00 · China Standard Time".
function about(zone: string): string {
  const part = (timeZoneName: "longOffset" | "longGeneric") =>
    new Intl.DateTimeFormat(t.locale, { timeZone: zone, timeZoneName })
      .formatToParts()
      .find((p) => p.type === "timeZoneName")?.value ?? "";
  try {
    const offset = part("longOffset").replace("GMT", "UTC");
    return `${offset === "UTC" ? "UTC+00:00" : offset} · ${part("longGeneric")}`;
  } catch {
    return ""; // a zone that is unknown to an old browser
  }
}

/** A field for a zone, typed or picked. zone returns its value; choose sets it. */
export function zoneField(chosen: string): Field & { zone: () => string; choose: (zone: string) => void } {
  let all = zones(chosen);
  const list = h("datalist", { id: "zones" });
  const f = field(
    t.welcome.zone,
    {
      name: "zone",
      list: "zones",
      required: true,
      maxlength: 64,
      autocomplete: "off",
      spellcheck: "false",
      value: chosen,
    },
    t.welcome.zoneHint,
  );
  const hint = f.el.querySelector(".hint")!;
  const said = hint.textContent;
  // Users type "shanghai" and not "Asia/Shanghai".
  const found = () => {
    const typed = f.input.value.trim().toLowerCase().replaceAll(" ", "_");
    return all.find((z) => z.toLowerCase() === typed) ?? all.find((z) => z.toLowerCase().split("/").pop() === typed);
  };
  const check = () => {
    const zone = found();
    f.input.setCustomValidity(zone ? "" : t.welcome.noZone);
    hint.textContent = zone ? `${about(zone)}. ${said}` : said;
  };
  f.input.addEventListener("input", check);
  // The names of about four hundred zones take a moment, and most users do not need them.
  f.input.addEventListener("focus", () => list.append(...all.map((z) => h("option", { value: z }, about(z)))), {
    once: true,
  });
  f.el.append(list);
  check();
  return {
    ...f,
    zone: () => found() ?? f.input.value,
    choose: (zone) => {
      all = zones(zone);
      f.input.value = zone;
      check();
    },
  };
}
