export type HighlightCore = {
  highlight(code: string, options: { language: string; ignoreIllegals: true }): { value: string };
};
/** Each language when it is first shown. */
export function register(names: readonly string[]): HighlightCore;
