-- What people and models said. A row has the number of its entry's row. Filled by searches: filled by commits it cost
-- 20 to 45 % of them (1 and 200 sessions, texts of 40 and 150 words).
CREATE VIRTUAL TABLE said USING fts5(
  text,
  content = '',
  contentless_delete = 1,
  tokenize = 'unicode61 remove_diacritics 2'
);
