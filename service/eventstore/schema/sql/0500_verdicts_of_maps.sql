-- compatible: yes
-- Why a map cannot be taken apart, and with which minified file that was found (empty: without one); null: not known.
alter table source_map_blobs add column verdict text, add column verdict_with text;
