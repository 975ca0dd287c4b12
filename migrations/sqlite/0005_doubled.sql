-- How many past attempts of an entry were marked as reported done by a holder that had lost its claim (empty: none), and
-- whether two claims have reported its effect as done (empty: no). The attempts stand in `history`, with their tokens and
-- their marks.
ALTER TABLE entries ADD COLUMN superseded_completes integer;
ALTER TABLE entries ADD COLUMN doubled integer;
