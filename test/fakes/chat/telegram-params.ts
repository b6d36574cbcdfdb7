// The parameters of Telegram's methods, as they are documented.
import { z } from "zod";
import { loose } from "./body.ts";

const chat = loose(z.union([z.int(), z.string().regex(/^@\w+$/)]));
const id = loose(z.int());
const flag = loose(z.boolean());
const whole = loose(z.int().min(0));
const anything = loose(z.unknown());

const button = z.strictObject({
  text: z.string().min(1),
  callback_data: z.string().optional(),
  url: z.string().optional(),
  icon_custom_emoji_id: z.string().optional(),
  style: z.enum(["danger", "success", "primary"]).optional(),
  web_app: z.unknown().optional(),
  login_url: z.unknown().optional(),
  switch_inline_query: z.string().optional(),
  switch_inline_query_current_chat: z.string().optional(),
  copy_text: z.strictObject({ text: z.string() }).optional(),
});
export type Button = z.infer<typeof button>;
const keyboard = z.strictObject({ inline_keyboard: z.array(z.array(button)) });
const markup = loose(
  z.union([
    keyboard,
    z.looseObject({ keyboard: z.array(z.unknown()) }),
    z.looseObject({ remove_keyboard: z.literal(true) }),
    z.looseObject({ force_reply: z.literal(true) }),
  ]),
);
export type Markup = z.infer<typeof markup>;

const format = { parse_mode: z.string().optional(), entities: anything.optional() };
const caption = {
  caption: z.string().optional(),
  parse_mode: z.string().optional(),
  caption_entities: anything.optional(),
  show_caption_above_media: flag.optional(),
};
const preview = { link_preview_options: anything.optional() };
const place = { business_connection_id: z.string().optional(), chat_id: chat };
const sending = {
  ...place,
  message_thread_id: id.optional(),
  direct_messages_topic_id: id.optional(),
  disable_notification: flag.optional(),
  protect_content: flag.optional(),
  allow_paid_broadcast: flag.optional(),
  message_effect_id: z.string().optional(),
  suggested_post_parameters: anything.optional(),
  reply_parameters: loose(
    z.strictObject({
      message_id: z.int(),
      chat_id: chat.optional(),
      allow_sending_without_reply: z.boolean().optional(),
      quote: z.string().optional(),
      quote_parse_mode: z.string().optional(),
      quote_entities: z.unknown().optional(),
      quote_position: z.int().optional(),
    }),
  ).optional(),
  reply_markup: markup.optional(),
};
const editing = {
  business_connection_id: z.string().optional(),
  chat_id: chat.optional(),
  message_id: id.optional(),
  inline_message_id: z.string().optional(),
  reply_markup: loose(keyboard).optional(),
};
/** A file of the body, a file_id, or an address. */
const file = z.string().optional();
const commandScope = { scope: anything.optional(), language_code: z.string().optional() };

export const PARAMS = {
  getMe: z.strictObject({}),
  getUpdates: z.strictObject({
    offset: id.optional(),
    limit: loose(z.int().min(1).max(100)).optional(),
    timeout: whole.optional(),
    allowed_updates: loose(z.array(z.string())).optional(),
  }),
  setWebhook: z.strictObject({
    url: z.string(),
    certificate: anything.optional(),
    ip_address: z.string().optional(),
    max_connections: loose(z.int().min(1).max(100)).optional(),
    allowed_updates: loose(z.array(z.string())).optional(),
    drop_pending_updates: flag.optional(),
    secret_token: z
      .string()
      .regex(/^[\w-]{1,256}$/)
      .optional(),
  }),
  deleteWebhook: z.strictObject({ drop_pending_updates: flag.optional() }),
  getWebhookInfo: z.strictObject({}),
  setMyCommands: z.strictObject({
    ...commandScope,
    commands: loose(
      z
        .array(
          z.strictObject({
            command: z.string().regex(/^[a-z0-9_]{1,32}$/),
            description: z.string().min(1).max(256),
          }),
        )
        .max(100),
    ),
  }),
  getMyCommands: z.strictObject(commandScope),
  sendMessage: z.strictObject({ ...sending, ...format, ...preview, text: z.string() }),
  sendPhoto: z.strictObject({ ...sending, ...caption, photo: file, has_spoiler: flag.optional() }),
  sendDocument: z.strictObject({
    ...sending,
    ...caption,
    document: file,
    thumbnail: file,
    disable_content_type_detection: flag.optional(),
  }),
  editMessageText: z.strictObject({ ...editing, ...format, ...preview, text: z.string() }),
  editMessageReplyMarkup: z.strictObject(editing),
  deleteMessage: z.strictObject({ chat_id: chat, message_id: id }),
  sendChatAction: z.strictObject({ ...place, message_thread_id: id.optional(), action: z.string() }),
  answerCallbackQuery: z.strictObject({
    callback_query_id: z.string(),
    text: z.string().max(200).optional(),
    show_alert: flag.optional(),
    url: z.string().optional(),
    cache_time: whole.optional(),
  }),
  getFile: z.strictObject({ file_id: z.string() }),
};

export type Method = keyof typeof PARAMS;
export type ParamsOf<M extends Method> = z.infer<(typeof PARAMS)[M]>;
export const isMethod = (name: string): name is Method => Object.hasOwn(PARAMS, name);

export const ACTIONS = new Set([
  "typing",
  "upload_photo",
  "record_video",
  "upload_video",
  "record_voice",
  "upload_voice",
  "upload_document",
  "choose_sticker",
  "find_location",
  "record_video_note",
  "upload_video_note",
]);
