// Stand-in by the screen's author: whoever writes the real one, write over this file.
export const openHistory = (_file: string): { entries(): string[]; add(text: string): void } => ({ entries: () => [], add() {} });
