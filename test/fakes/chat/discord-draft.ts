// A message as a bot writes it, checked as Discord checks it, and the way Discord says no.
import { z } from "zod";
import { isRecord, parsed } from "../llm/validation.ts";
import type { Call } from "./server.ts";

export type Draft = {
  content: string;
  components: unknown[];
  embeds: unknown[];
  flags: number;
  nonce: string | number | undefined;
  enforceNonce: boolean;
  replyTo: string | undefined;
  mustExist: boolean;
};

/** An answer that is no, with Discord's own code. An offence: no client should have asked. */
export class Refused extends Error {
  status: number;
  code: number;
  offence: boolean;
  /** Where it is wrong. */
  fields: Record<string, unknown> | undefined;
  constructor(status: number, code: number, message: string, offence = false, fields?: Record<string, unknown>) {
    super(message);
    this.status = status;
    this.code = code;
    this.offence = offence;
    this.fields = fields;
  }
}

export type Button = { custom_id?: string | undefined; label?: string | undefined; url?: string | undefined };

const MOST_CHARACTERS = 2000;
const MOST_NONCE = 25;
const EPHEMERAL = 64;
const SUPPRESS_EMBEDS = 4;
const SUPPRESS_NOTIFICATIONS = 4096;

const button = z
  .strictObject({
    type: z.literal(2),
    id: z.int().optional(),
    style: z.int().min(1).max(5),
    label: z.string().min(1).max(80).optional(),
    emoji: z.unknown().optional(),
    custom_id: z.string().min(1).max(100).optional(),
    url: z.string().max(512).optional(),
    disabled: z.boolean().optional(),
  })
  .refine(({ style, custom_id, url }) => (style === 5 ? url && !custom_id : custom_id && !url), {
    message: "A button has a custom_id, a link has a url.",
    path: ["custom_id"],
  })
  .refine(({ label, emoji }) => label !== undefined || emoji !== undefined, "A button has a label or an emoji.");
const row = z.strictObject({ type: z.literal(1), id: z.int().optional(), components: z.array(button).min(1).max(5) });

const body = z.strictObject({
  content: z.string().nullish(),
  nonce: z.union([z.int(), z.string()]).optional(),
  enforce_nonce: z.boolean().optional(),
  tts: z.boolean().optional(),
  embeds: z
    .array(z.looseObject({ title: z.string().max(256).optional(), description: z.string().max(4096).optional() }))
    .max(10)
    .nullish(),
  components: z.array(row).max(5).nullish(),
  flags: z.int().nullish(),
  message_reference: z
    .strictObject({
      type: z.literal(0).optional(),
      message_id: z.string(),
      channel_id: z.string().optional(),
      guild_id: z.string().optional(),
      fail_if_not_exists: z.boolean().optional(),
    })
    .nullish(),
  allowed_mentions: z
    .strictObject({
      parse: z.array(z.enum(["roles", "users", "everyone"])).optional(),
      roles: z.array(z.string()).max(100).optional(),
      users: z.array(z.string()).max(100).optional(),
      replied_user: z.boolean().optional(),
    })
    .nullish(),
  attachments: z.array(z.unknown()).nullish(),
  sticker_ids: z.array(z.string()).optional(),
  poll: z.unknown().optional(),
});

/** `before`: what an edit does not name stays. */
export function drafted(call: Call, before?: Draft): Draft {
  const read = body.safeParse(bodyOf(call));
  if (!read.success) throw invalid(read.error.issues.flatMap(leaves));
  const { data } = read;
  const content = data.content === undefined ? (before?.content ?? "") : (data.content ?? "");
  const embeds = data.embeds === undefined ? (before?.embeds ?? []) : (data.embeds ?? []);
  const rows = data.components ?? [];
  // Code points, as Discord counts them.
  if (Array.from(content).length > MOST_CHARACTERS)
    throw invalid([{ path: ["content"], code: "BASE_TYPE_MAX_LENGTH", message: "Must be 2000 or fewer in length." }]);
  if (typeof data.nonce === "string" && data.nonce.length > MOST_NONCE)
    throw invalid([{ path: ["nonce"], code: "BASE_TYPE_MAX_LENGTH", message: "Must be 25 or fewer in length." }]);
  const ids = rows.flatMap(({ components }) => components.flatMap(({ custom_id }) => custom_id ?? []));
  if (new Set(ids).size < ids.length)
    throw invalid([{ path: ["components"], code: "COMPONENT_CUSTOM_ID_DUPLICATED", message: "Duplicated custom_id." }]);
  const flags = data.flags ?? before?.flags ?? 0;
  if (flags & ~(EPHEMERAL | SUPPRESS_EMBEDS | SUPPRESS_NOTIFICATIONS))
    throw invalid([{ path: ["flags"], code: "FAKE", message: `This fake does not know the flags ${flags}.` }]);
  const components = data.components === undefined ? (before?.components ?? []) : rows;
  if (content.trim() === "" && embeds.length === 0 && components.length === 0 && Object.keys(call.files).length === 0)
    throw new Refused(400, 50006, "Cannot send an empty message", true);
  return {
    content,
    components,
    embeds,
    flags,
    nonce: data.nonce,
    enforceNonce: data.enforce_nonce ?? false,
    replyTo: data.message_reference?.message_id,
    mustExist: data.message_reference?.fail_if_not_exists ?? true,
  };
}

/** The JSON of a call: its body, or one part of a form beside the files. */
export const bodyOf = ({ params }: Call): unknown =>
  typeof params.payload_json === "string" ? parsed(params.payload_json) : params;

export const buttonsOf = (components: unknown[]): Button[] =>
  components.flatMap((row) => (isRecord(row) && Array.isArray(row.components) ? (row.components as Button[]) : []));

type Leaf = { path: PropertyKey[]; code: string; message: string };

function leaves(issue: z.core.$ZodIssue): Leaf[] {
  const code = issue.code === "too_big" ? "BASE_TYPE_MAX_LENGTH" : issue.code.toUpperCase();
  return [{ path: issue.path, code, message: issue.message }];
}

/** `errors: { components: { 0: { custom_id: { _errors: [{ code, message }] } } } }` */
export function invalid(problems: Leaf[]): Refused {
  const fields: Record<string, unknown> = {};
  for (const { path, code, message } of problems) {
    let place = fields;
    for (const key of path) {
      const inner = place[String(key)];
      const next = isRecord(inner) ? inner : {};
      place[String(key)] = next;
      place = next;
    }
    place._errors = [{ code, message }];
  }
  return new Refused(400, 50035, "Invalid Form Body", true, fields);
}
