// The arguments of Slack's methods, as they are documented, and the blocks of a message.
import { z } from "zod";
import { loose } from "./body.ts";

const plain = (most: number) =>
  z.strictObject({
    type: z.literal("plain_text"),
    text: z.string().min(1).max(most),
    emoji: z.boolean().optional(),
  });
const words = (most: number) =>
  z.union([
    plain(most),
    z.strictObject({
      type: z.literal("mrkdwn"),
      text: z.string().min(1).max(most),
      verbatim: z.boolean().optional(),
    }),
  ]);

const button = z.strictObject({
  type: z.literal("button"),
  text: plain(75),
  action_id: z.string().min(1).max(255).optional(),
  value: z.string().max(2000).optional(),
  url: z.string().max(3000).optional(),
  style: z.enum(["primary", "danger"]).optional(),
  confirm: z.unknown().optional(),
  accessibility_label: z.string().max(75).optional(),
});
export type Button = z.infer<typeof button>;
const others = z.looseObject({ type: z.string().refine((type) => type !== "button", { abort: true }) });
const element = z.union([button, others]);
const block_id = z.string().max(255).optional();

const block = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("section"),
    block_id,
    text: words(3000).optional(),
    fields: z.array(words(2000)).max(10).optional(),
    accessory: element.optional(),
    expand: z.boolean().optional(),
  }),
  z.strictObject({ type: z.literal("actions"), block_id, elements: z.array(element).min(1).max(25) }),
  z.strictObject({
    type: z.literal("context"),
    block_id,
    elements: z
      .array(z.union([words(3000), z.looseObject({ type: z.literal("image") })]))
      .min(1)
      .max(10),
  }),
  z.strictObject({ type: z.literal("divider"), block_id }),
  z.strictObject({ type: z.literal("header"), block_id, text: plain(150) }),
  z.strictObject({ type: z.literal("markdown"), block_id, text: z.string().max(12_000) }),
  z.looseObject({ type: z.literal("rich_text"), block_id, elements: z.array(z.unknown()) }),
  z.looseObject({ type: z.literal("image"), block_id, alt_text: z.string().max(2000) }),
]);
export type Block = z.infer<typeof block>;

/** Two buttons of a block may not share an action_id. */
export const blocksSchema = z
  .array(
    block.refine((one) => {
      const ids = buttonsOf([one]).flatMap(({ action_id }) => action_id ?? []);
      return new Set(ids).size === ids.length;
    }, "action_id already exists in this block"),
  )
  .max(50);

export function buttonsOf(blocks: Block[]): (Button & { block_id?: string | undefined })[] {
  return blocks.flatMap((one) => {
    const elements = one.type === "actions" ? one.elements : one.type === "section" ? [one.accessory] : [];
    return elements.flatMap((part) =>
      part?.type === "button" ? [{ ...(part as Button), block_id: one.block_id }] : [],
    );
  });
}

const flag = loose(z.boolean());
const ts = z.string().regex(/^\d{10}\.\d{6}$/);
const written = {
  text: z.string().optional(),
  /** Judged by itself: Slack has its own answer to bad ones. */
  blocks: loose(z.unknown()).optional(),
  attachments: loose(z.array(z.unknown())).optional(),
  metadata: loose(z.unknown()).optional(),
  markdown_text: z.string().max(12_000).optional(),
  link_names: flag.optional(),
  parse: z.string().optional(),
  as_user: flag.optional(),
};
const token = z.string().optional();

export const PARAMS = {
  "auth.test": z.strictObject({ token }),
  "apps.connections.open": z.strictObject({ token }),
  "chat.postMessage": z.strictObject({
    token,
    ...written,
    channel: z.string(),
    thread_ts: ts.optional(),
    reply_broadcast: flag.optional(),
    mrkdwn: flag.optional(),
    unfurl_links: flag.optional(),
    unfurl_media: flag.optional(),
    icon_emoji: z.string().optional(),
    icon_url: z.string().optional(),
    username: z.string().optional(),
  }),
  "chat.update": z.strictObject({
    token,
    ...written,
    channel: z.string(),
    ts,
    reply_broadcast: flag.optional(),
    file_ids: loose(z.array(z.string())).optional(),
  }),
  "chat.delete": z.strictObject({ token, channel: z.string(), ts, as_user: flag.optional() }),
  "conversations.info": z.strictObject({
    token,
    channel: z.string(),
    include_locale: flag.optional(),
    include_num_members: flag.optional(),
  }),
  "users.info": z.strictObject({ token, user: z.string(), include_locale: flag.optional() }),
  "reactions.add": z.strictObject({ token, channel: z.string(), name: z.string(), timestamp: ts }),
  "files.info": z.strictObject({ token, file: z.string() }),
};

export type Method = keyof typeof PARAMS;
export type ParamsOf<M extends Method> = z.infer<(typeof PARAMS)[M]>;
export const isMethod = (name: string): name is Method => Object.hasOwn(PARAMS, name);
