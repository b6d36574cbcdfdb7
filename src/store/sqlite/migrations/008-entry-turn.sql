CREATE INDEX entry_turn ON entry (turn);
