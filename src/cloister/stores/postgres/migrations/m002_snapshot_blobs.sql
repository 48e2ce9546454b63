-- Snapshots keep the contents of files: a list of blobs as JSON.
ALTER TABLE snapshots ADD COLUMN blobs text NOT NULL DEFAULT '[]';
