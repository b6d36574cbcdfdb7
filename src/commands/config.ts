// hermes config: reads and changes config.yaml.
import type { Command } from "commander";
import { homeOf } from "../platform/home.ts";
import { complain, env, print } from "./shared.ts";

export function addConfig(program: Command): void {
  const config = program.command("config").description("read and change config.yaml (docs/configuration.md)");
  config
    .command("get")
    .description("show a setting, or all that are not the default and where they come from; secrets are not shown")
    .argument("[key]", "a key such as model.default")
    .action(async (key: string | undefined) => {
      const { getSetting, listSettings } = await import("../surfaces/cli/config.ts");
      const desk = await configDesk();
      process.exitCode = await (key === undefined ? listSettings(desk) : getSetting(desk, key));
    });
  config
    .command("set")
    .description("change a setting in config.yaml, if the result is valid; comments stay")
    .argument("<key>", "a key such as model.default")
    .argument("<value>", "the value, as in YAML: text, a number, true, [a, b]")
    .action(async (key: string, value: string) => {
      const { setSetting } = await import("../surfaces/cli/config.ts");
      process.exitCode = await setSetting(await configDesk(), key, value);
    });
  config
    .command("unset")
    .description("remove a setting from config.yaml, so that its default counts")
    .argument("<key>", "a key such as model.default")
    .action(async (key: string) => {
      const { unsetSetting } = await import("../surfaces/cli/config.ts");
      process.exitCode = await unsetSetting(await configDesk(), key);
    });
  config
    .command("edit")
    .description("open config.yaml in $VISUAL or $EDITOR, and check it before it is written")
    .action(async () => {
      const { editConfig } = await import("../surfaces/cli/config.ts");
      process.exitCode = await editConfig(await configDesk(), env.VISUAL || env.EDITOR || "vi");
    });
  config
    .command("path")
    .description("print the path of config.yaml")
    .action(() => print(`${homeOf(env).config}\n`));
  config
    .command("env-path")
    .description("print the path of .env")
    .action(() => print(`${homeOf(env).env}\n`));
}

async function configDesk() {
  const { loadConfig } = await import("../config/config.ts");
  const { hint, shown } = await import("../config/problems.ts");
  const { pathOfKey } = await import("../config/schema.ts");
  const { at } = await import("../config/tree.ts");
  const look = (drafts: ReadonlyMap<string, string> = new Map()) => loadConfig({ env, drafts });
  return { home: homeOf(env), look, pathOfKey, at, shown, hint, print, complain };
}
