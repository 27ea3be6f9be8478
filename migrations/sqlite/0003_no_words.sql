-- There is no index of words any more. A program that keeps one may no longer write.
UPDATE agreements SET value = '4' WHERE name = 'writer';
DELETE FROM agreements WHERE name IN ('ledger_text', 'unindexed_below');
UPDATE schema_migrations SET complete = TRUE WHERE version = 2 AND name = 'words';

-- SQLite reads every page of a table that it drops. So the large tables of FTS5 are renamed, which is instant, and the backfill deletes
-- their rows and drops them. What is left under the name of an index is small, and goes at once.
ALTER TABLE memory_words_data RENAME TO removed_memory_words_data;
ALTER TABLE memory_words_idx RENAME TO removed_memory_words_idx;
ALTER TABLE memory_words_docsize RENAME TO removed_memory_words_docsize;
DROP TABLE memory_words;
ALTER TABLE document_words_data RENAME TO removed_document_words_data;
ALTER TABLE document_words_idx RENAME TO removed_document_words_idx;
ALTER TABLE document_words_docsize RENAME TO removed_document_words_docsize;
DROP TABLE document_words;
