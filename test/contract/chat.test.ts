// The contract, for every channel in which people talk: its rig is in `chat-<name>.ts`.
import { CHANNELS } from "../../src/chats/channels.ts";
import { chatContract, type Rig } from "./chat.ts";

for (const [name, channel] of CHANNELS) {
  if (channel.for !== "people") continue;
  const { rig } = (await import(`./chat-${name}.ts`)) as { rig(): Promise<Rig> };
  chatContract(name, rig);
}
