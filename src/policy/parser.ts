// The only shell parser, loaded when the first command is judged: `hermes --help` must not pay for it.
import type { Parser } from "./reading.ts";

let loading: Promise<Parser> | null = null;

export const loadParser = (): Promise<Parser> => {
  loading ??= import("unbash").then(({ parse }) => parse);
  return loading;
};
