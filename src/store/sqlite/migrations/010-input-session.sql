CREATE INDEX input_session ON input (session);
