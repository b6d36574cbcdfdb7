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
    .action((key: string | undefined) =>
      onConfig((cli, desk) => (key === undefined ? cli.listSettings(desk) : cli.getSetting(desk, key))),
    );
  config
    .command("set")
    .description("change a setting in config.yaml, if the result is valid; comments stay")
    .argument("<key>", "a key such as model.default")
    .argument("<value>", "the value, as in YAML: text, a number, true, [a, b]")
    .action((key: string, value: string) => onConfig((cli, desk) => cli.setSetting(desk, key, value)));
  config
    .command("unset")
    .description("remove a setting from config.yaml, so that its default counts")
    .argument("<key>", "a key such as model.default")
    .action((key: string) => onConfig((cli, desk) => cli.unsetSetting(desk, key)));
  config
    .command("edit")
    .description("open config.yaml in $VISUAL or $EDITOR, and check it before it is written")
    .action(() => onConfig((cli, desk) => cli.editConfig(desk, env.VISUAL || env.EDITOR || "vi")));
  config
    .command("path")
    .description("print the path of config.yaml")
    .action(() => print(`${homeOf(env).config}\n`));
  config
    .command("env-path")
    .description("print the path of .env")
    .action(() => print(`${homeOf(env).env}\n`));
}

type ConfigCli = typeof import("../surfaces/cli/config.ts");

async function onConfig(command: (cli: ConfigCli, desk: Parameters<ConfigCli["getSetting"]>[0]) => Promise<number>) {
  const cli = await import("../surfaces/cli/config.ts");
  const { loadConfig } = await import("../config/config.ts");
  const { hint, shown } = await import("../config/problems.ts");
  const { pathOfKey } = await import("../config/schema.ts");
  const { at } = await import("../config/tree.ts");
  const look = (drafts: ReadonlyMap<string, string> = new Map()) => loadConfig({ env, drafts });
  process.exitCode = await command(cli, { home: homeOf(env), look, pathOfKey, at, shown, hint, print, complain });
}
