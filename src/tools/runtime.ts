// A runtime, and what only the tools know of its sessions: processes in the background, and files.
import { messageOf } from "../core/errors.ts";
import type { Log } from "../core/ports.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Journal } from "../core/store.ts";
import { logFailure } from "../platform/log-failure.ts";
import type { Toolbox } from "./toolbox.ts";

type Options = {
  toolbox: Pick<Toolbox, "background" | "delegated" | "endBackground" | "restoreFiles" | "fileChanges">;
  journal: Pick<Journal, "children">;
  /** Removes all files of a session's own. */
  removeFiles(session: string): Promise<unknown>;
  log: Log;
};

export function withTools<R extends Runtime>(runtime: R, { toolbox, journal, removeFiles, log }: Options): R {
  async function familyOf(session: string): Promise<string[]> {
    const children = await journal.children(session);
    return [session, ...(await Promise.all(children.map(familyOf))).flat()];
  }

  const over: Pick<Runtime, "stop" | "restoreFiles" | "fileChanges" | "forget" | "status"> = {
    async stop(stop) {
      if (stop.scope !== "tree") return runtime.stop(stop);
      const unended = (error: unknown) =>
        log("error", "background.unended", { session: stop.session, error: messageOf(error) });
      // First: the end of a child that is stopped with its parent must not wake the parent.
      const children = toolbox.delegated.end(stop.session).catch(unended);
      const stopped = await runtime.stop(stop);
      // The turn is stopped whatever comes of the rest.
      await Promise.all([children, toolbox.endBackground(stop.session).catch(unended)]);
      return stopped;
    },
    async restoreFiles(what) {
      const { turn } = await runtime.status(what.session);
      return turn
        ? { summary: "Files were not brought back: stop the turn first.", patch: "" }
        : toolbox.restoreFiles(what);
    },
    fileChanges: (what) => toolbox.fileChanges(what),
    /** With the files of its own and of the sessions that it made. */
    async forget(session) {
      const family = await familyOf(session);
      const became = await runtime.forget(session);
      if (became !== "forgotten") return became;
      for (const one of family) await removeFiles(one).catch(logFailure(log, "warn", "files.kept", { session: one }));
      return became;
    },
    status: async (session) => ({ ...(await runtime.status(session)), background: toolbox.background(session) }),
  };
  return { ...runtime, ...over };
}
