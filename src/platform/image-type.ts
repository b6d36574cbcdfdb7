// What a picture really is: a wrong type is refused, and with it everything that is sent beside it.

/** The first bytes of each kind, in base64. */
const BEGINNINGS: [type: string, RegExp][] = [
  ["image/png", /^iVBORw0KGgo/],
  ["image/jpeg", /^\/9j\//],
  ["image/gif", /^R0lGOD[dl]h/],
  ["image/webp", /^UklGR.{6}XRUJQ/], // RIFF, four bytes of length, WEBP
];

/** Null: none of these. */
export const trueType = (base64: string): string | null =>
  BEGINNINGS.find(([, beginning]) => beginning.test(base64.slice(0, 32)))?.[0] ?? null;
