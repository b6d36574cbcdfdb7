// Discord: its gateway brings what people say, its REST API takes what we say.
import { createHash } from "node:crypto";
import { type Button, type Chat, type Ears, type Place, type Said } from "../core/chat.ts";
import { messageOf } from "../core/errors.ts";
import type { Clock, Log, Random } from "../core/ports.ts";
import { z } from "zod";
import { openCalls } from "./calls.ts";
import { codeOf, faultOf, openApi } from "./discord-api.ts";
import { openAnswers } from "./discord-answers.ts";
import { type Gateway, openGateway } from "./discord-gateway.ts";
import { type Inbound, openInbound } from "./discord-inbound.ts";
import { discordMarkdown, LONGEST } from "./discord-markdown.ts";
import { type Lanes, openLanes } from "./lanes.ts";

type Options = { token: string; apiRoot?: string; clock: Clock; log: Log; random: Random };
type Listening = { inbound: Inbound; stop(): Promise<void> };

const PLATFORM = "discord";
const UNKNOWN_MESSAGE = 10_008;
/** What Discord has room for. */
const ROWS = 5;
const BUTTONS = 5;
const LABEL = 80;
const NONCE = 25;

export function createDiscord({ token, apiRoot, clock, log, random }: Options): Chat {
  const calls = openCalls(clock);
  const api = openApi(token, apiRoot, calls);
  const health = { platform: PLATFORM, connected: false, heardAt: null as number | null, error: "" };
  const never = new AbortController().signal;
  let listening: Listening | null = null;
