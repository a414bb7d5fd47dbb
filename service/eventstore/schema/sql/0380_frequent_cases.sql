-- compatible: yes
-- The most frequent cases are found by how frequent they are, however many there are. The exact number changes with every
-- error and an index over it would make each of these updates write to all indexes of the row; its logarithm, in quarters
-- of a doubling, hardly ever does. Up to 6 it tells all numbers apart: of the very many cases that had few errors those
-- seen lately come first, by the hour. The order is one that (event_count, last_seen_at) refines.
alter table case_stats add column frequency bigint generated always as (
    floor(4 * ln(greatest(event_count, 1)) / ln(2))::bigint * 4294967296
    + case when event_count <= 6 then last_seen_at / 3600 else 0 end) stored;
create index case_stats_frequency on case_stats (project_id, frequency);
