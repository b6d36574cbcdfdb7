// Reads bodies from outside up to a limit. Bytes are counted while they are read, after decompression: the announced
// length may be wrong, and a few compressed kilobytes can become gigabytes. At the limit, reading stops and the
// connection is closed.

export class TooLarge extends Error {
  constructor(most: number) {
    super(`the answer is larger than ${most >= 1_000_000 ? `${Math.round(most / 1_000_000)} MB` : `${most} bytes`}`);
  }
}

/** Decodes UTF-8. Throws TooLarge if there are more than `most` bytes. */
export async function textWithin(body: AsyncIterable<Uint8Array> | null, most: number): Promise<string> {
  const { bytes, cut } = await firstBytes(body, most);
  if (cut) throw new TooLarge(most);
  return new TextDecoder().decode(bytes);
}

/** The first `most` bytes. `cut` says whether there were more. */
export async function firstBytes(body: AsyncIterable<Uint8Array> | null, most: number) {
  const pieces: Uint8Array[] = [];
  let size = 0;
  // Leaving the loop early closes the body, and with it the connection.
  for await (const piece of body ?? []) {
    size += piece.length;
    pieces.push(size > most ? piece.subarray(0, piece.length - (size - most)) : piece);
    if (size > most) return { bytes: joined(pieces, most), cut: true };
  }
  return { bytes: joined(pieces, size), cut: false };
}

/** A response for a library that reads the body itself: the body fails with TooLarge after `most` bytes. */
export const failAfter = (most: number, response: Response): Response =>
  withBody(response, (controller) => controller.error(new TooLarge(most)), most);

/** Like `failAfter`, but the body ends normally at the limit: for responses of which only the status matters. */
export const cutAfter = (most: number, response: Response): Response =>
  withBody(response, (controller) => controller.terminate(), most);

type OnOverflow = (controller: TransformStreamDefaultController<Uint8Array>) => void;

function withBody(response: Response, over: OnOverflow, most: number): Response {
  const { body, status, statusText, headers } = response;
  let left = most;
  const counting = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      if (left > 0) controller.enqueue(chunk.subarray(0, left));
      left -= chunk.length;
      if (left < 0) over(controller);
    },
  });
  return new Response(body?.pipeThrough(counting) ?? null, { status, statusText, headers });
}

function joined(pieces: readonly Uint8Array[], size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}
