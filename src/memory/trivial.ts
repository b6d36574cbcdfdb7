// Whether a message is too small to recall anything for.

const SMALL_TALK = new Set(
  (
    "hi hello hey hallo hola bonjour ciao morning good evening afternoon night day there again all everyone " +
    "thanks thank thx ty you so very much a lot many merci danke gracias please bye goodbye see later cheers " +
    "yes yeah yep yup no nope nah ok okay k sure right fine great nice cool perfect done go on ahead continue " +
    "do it that's that is"
  ).split(" "),
);
const LEAST = { words: 3, bytes: 12 };

export function isTrivial(text: string): boolean {
  const said = text.trim();
  // A slash command is for us, but a path is for the model.
  if (/^\/\w+(\s|$)/.test(said)) return true;
  // Bytes, not characters: in scripts where one sign is a word, four signs say something.
  if (Buffer.byteLength(said.slice(0, 100)) < LEAST.bytes) return true;
  const words = wordsOf(said.slice(0, 300));
  return words.length < LEAST.words || words.every((word) => SMALL_TALK.has(word));
}

let segmenter: Intl.Segmenter | null = null; // 15 ms of the first turn, so only for scripts that need it

function wordsOf(text: string): string[] {
  if (/^[\t-~]*$/.test(text)) return text.toLowerCase().match(/\w+(?:['.]\w+)*/g) ?? [];
  segmenter ??= new Intl.Segmenter("en", { granularity: "word" });
  return [...segmenter.segment(text.toLowerCase())]
    .filter(({ isWordLike }) => isWordLike)
    .map(({ segment }) => segment);
}
