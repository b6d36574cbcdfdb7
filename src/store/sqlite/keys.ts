/** Comes after every key that begins with `prefix`. */
export const behind = (prefix: string): string => `${prefix}\u{10ffff}`;
