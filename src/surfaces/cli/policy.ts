// `hermes policy check`: shows what the policy decides about a command, and why. It runs nothing.

type ShownJudgement = {
  verdict: "allow" | "ask" | "deny";
  reason: string;
  part: string;
  parts: readonly { reason: string; text: string }[];
};

export type PolicyCheckOptions = {
  /** The command; undefined with `stdin`. */
  command: string | undefined;
  /** One JSON string per line; undefined to judge `command`. */
  stdin: AsyncIterable<string> | Iterable<string> | undefined;
  /** The configured policy, with the sandbox that is in force or the one that the caller chose. */
  judge: (command: string) => ShownJudgement | Promise<ShownJudgement>;
  /** Makes invisible characters visible, on one line. */
  escape: (text: string) => string;
  print: (text: string) => Promise<void>;
};

/** Returns the exit code: 0 judged, whatever the verdict; 2 nothing to judge, or a line that is not a JSON string. */
export const checkPolicy = async ({ command, stdin, judge, escape, print }: PolicyCheckOptions): Promise<number> => {
  if (stdin === undefined) {
    if (command === undefined) {
      await print('Give a command in quotes, or --stdin: hermes policy check "ls -la"\n');
      return 2;
    }
    const { verdict, reason, part, parts } = await judge(command);
    for (const one of parts.length > 1 ? parts : [{ reason, text: part }])
      await print(`${verdict}: ${escape(one.reason)}\n${one.text === "" ? "" : `  ${escape(one.text)}\n`}`);
    return 0;
  }
  let code = 0;
  for await (const line of stdin) {
    if (line.trim() === "") continue;
    const text = jsonText(line);
    if (text === null) {
      await print(`error\tThis line is not a JSON string.\t${escape(line)}\n`);
      code = 2;
      continue;
    }
    const { verdict, reason, part } = await judge(text);
    await print(`${verdict}\t${escape(reason)}\t${escape(part)}\n`);
  }
  return code;
};

const jsonText = (line: string): string | null => {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "string" ? value : null;
  } catch {
    return null;
  }
};
