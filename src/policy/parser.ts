// The one shell parser, loaded when a command is first judged: `hermes --help` must not pay for it.
import type { Parser } from "./reading.ts";

let loading: Promise<Parser> | null = null;

export const loadParser = (): Promise<Parser> => {
  loading ??= import("unbash").then(({ parse }) => parse);
  return loading;
};
