-- The inbox: docs/contract.md, section 15. `next_at` is when a kept message is due to be handed out, `erase_at` when it is due to be
-- erased; `body` is a number of Body: 1 kept, 2 erased. All three are empty in entries without a message.
ALTER TABLE entries ADD COLUMN next_at integer;
ALTER TABLE entries ADD COLUMN erase_at integer;
ALTER TABLE entries ADD COLUMN body integer;
