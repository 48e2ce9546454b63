"""The schema, step by step: `m001_initial.sql` and so on. A step that was released is never changed."""
