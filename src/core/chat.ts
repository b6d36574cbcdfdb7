// A chat platform as the gateway sees it: the events it sends, and the calls it takes. One implementation each in chats/.

/** Where a message is. `thread`: a topic or thread within the chat. */
export type Place = { kind: "dm" | "group" | "channel" | "thread"; chat: string; thread?: string };
/** `id` never changes and is never given to somebody else; a name can be. */
export type Person = { id: string; name: string };

export type Attachment = {
  kind: "photo" | "voice" | "file";
  name: string;
  mime: string;
  /** Bytes, as far as the platform says; 0: it does not. */
  size: number;
  /** At most `most` bytes; rejects when there are more. */
  load(most: number, signal: AbortSignal): Promise<Uint8Array>;
};

/** Spoken words that came with a message, in a file of ours. */
export type Recording = { path: string; name: string; mime: string };
/** The words. Rejects with a reason for people, and in time. */
export type Transcribe = (recording: Recording) => Promise<string>;

export type InboundMessage = {
  /** The message's name in its place: the same when it is delivered again, or edited. */
  message: string;
  place: Place;
  from: Person;
  text: string;
  attachments: Attachment[];
  /** It is meant for us: sent to us alone, or naming us, or in reply to us. */
  addressed: boolean;
};
/** A button under one of our messages. */
export type ButtonPress = { data: string; place: Place; from: Person; message: string };

/** Takes the events of a platform. When a promise resolves, the event is durable; only then may the platform get its
 *  acknowledgement. It rejects when nothing was taken: the platform should deliver the event again. */
export interface InboundHandler {
  onMessage(message: InboundMessage): Promise<void>;
  onEdit(message: InboundMessage): Promise<void>;
  onDelete(place: Place, message: string): Promise<void>;
  /** Returns what the person is shown for a moment. */
  onPress(press: ButtonPress): Promise<string>;
}

/** `data`: at most 64 bytes, which is what the strictest platform takes. */
export type Button = { label: string; data: string };
/** `text` is Markdown and not longer than `longest`; the platform renders it as well as it can. */
export type OutboundMessage = { text: string; buttons?: Button[][]; replyTo?: string };

export type ChatHealth = {
  platform: string;
  connected: boolean;
  /** When the platform last answered, in milliseconds of the clock. */
  heardAt: number | null;
  error: string;
};

export interface Chat {
  readonly platform: string;
  /** Characters of one message. */
  readonly longest: number;
  /** How often one message may be edited. */
  readonly editEveryMs: number;
  /** Connects and goes on connecting, with growing pauses, until `stop`. Resolves when the first connection stands or has
   *  failed for a reason that may pass; rejects with a ConfigError where it never will (a wrong token). */
  start(handler: InboundHandler): Promise<void>;
  /** Takes no more events; those being taken are finished. Sending still works. */
  stop(): Promise<void>;
  /** Returns the message's name. `key` is the same when the same is sent again. Throws a SendFault. */
  send(place: Place, message: OutboundMessage, key: string, signal: AbortSignal): Promise<string>;
  edit(place: Place, id: string, message: OutboundMessage, signal: AbortSignal): Promise<void>;
  remove(place: Place, id: string, signal: AbortSignal): Promise<void>;
  /** Shows for a few seconds that we are at work. Never rejects. */
  typing(place: Place): Promise<void>;
  /** What the platform's menu offers. Never rejects. */
  offer(commands: readonly { name: string; description: string }[]): Promise<void>;
  health(): ChatHealth;
  /** Ends every connection. */
  close(): Promise<void>;
}

/** Who may talk though they are on no list. */
export type PairingDesk = {
  newCode(platform: string): Promise<{ code: string; expiresAt: number }>;
  /** Pairs the stranger whom we have given that code. Null: nobody waits with it. */
  approve(platform: string, code: string): Promise<{ id: string; name: string } | null>;
  paired(): Promise<{ platform: string; id: string; name: string; at: number }[]>;
  unpair(platform: string, id: string): Promise<boolean>;
};

/** A send that failed. `unknown`: it may have arrived. `never`: it never will (blocked, no such chat). */
export class SendFault extends Error {
  override readonly name = "SendFault";
  readonly landed: "no" | "unknown" | "never";
  /** Milliseconds that the platform asks us to wait. */
  readonly retryAfter: number | undefined;
  constructor(landed: "no" | "unknown" | "never", message: string, retryAfter?: number) {
    super(message);
    this.landed = landed;
    this.retryAfter = retryAfter;
  }
}
