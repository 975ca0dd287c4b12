-- The inbox: docs/contract.md, section 15. `next_at` is when a kept message is due to be handed out, `erase_at` when it is due to be
-- erased; `body` is a number of Body: 1 kept, 2 erased. All three are empty in entries without a message, and nothing that a
-- plain claim does changes them: its completion stays a heap-only update.
ALTER TABLE ledger.entries ADD COLUMN next_at bigint, ADD COLUMN erase_at bigint, ADD COLUMN body smallint;
