-- size --
-- The size of the log.
select size from log_state

-- built --
-- How many full tiles a level has.
select coalesce(max(tile) + 1, 0) from log_tiles where level = %s

-- leaves_between --
-- The leaves of positions after one, up to another.
select e.leaf from log_index i join events e on e.seq = i.seq where i.position > %s and i.position <= %s
order by i.position

-- roots_of_tiles --
-- The roots of full tiles of a level.
select root from log_tiles where level = %s and tile >= %s and tile < %s order by tile

-- add_tile --
-- Store a full tile, unless another process has.
insert into log_tiles (level, tile, hashes, root) values (%s, %s, %s, %s) on conflict do nothing

-- tiles --
-- Some tiles by level, place and width: full ones, and others made of what is below them.
select w.level, w.tile, coalesce(substring(t.hashes for w.width * 32), case when w.level = 0 then (
    select string_agg(sha256('\x00'::bytea || e.leaf), ''::bytea order by i.position) from log_index i
join events e on e.seq = i.seq where i.position > w.tile * 256 and i.position <= w.tile * 256 + w.width
    ) else (select string_agg(b.root, ''::bytea order by b.tile) from log_tiles b where b.level = w.level - 1
    and b.tile >= w.tile * 256 and b.tile < w.tile * 256 + w.width) end)
from unnest(%(levels)s::int[], %(tiles)s::bigint[], %(widths)s::int[]) w(level, tile, width)
left join log_tiles t on t.level = w.level and t.tile = w.tile

-- part kept --
-- The checkpoints of the present origin, with the lines of their cosigners.
select c.origin, c.size, c.root, c.note, coalesce((select string_agg(s.lines, '' order by s.witness)
from log_cosignatures s where s.origin = c.origin and s.size = c.size), '') from log_checkpoints c
where c.origin = (select origin from log_origins order by number desc limit 1)

-- latest --
-- The newest checkpoint.
\include kept
order by c.size desc limit 1

-- for_size --
-- The smallest checkpoint that has a position.
\include kept
    and c.size >= %(size)s order by c.size limit 1

-- keys --
-- The keys that signed the log, in their order.
select vkey, extract(epoch from first_signed_at)::bigint from log_keys
where origin = (select origin from log_origins order by number desc limit 1) order by first_signed_at, vkey

-- cosigned --
-- The largest size that a witness has cosigned.
select coalesce(max(size), 0) from log_cosignatures where origin = %(origin)s and witness = %(witness)s

-- keep_cosignature --
-- Keep the lines of a witness below a checkpoint.
insert into log_cosignatures (origin, size, witness, lines, cosigned_at)
select c.origin, c.size, %(witness)s, %(lines)s, clock_timestamp() from log_checkpoints c
where c.origin = %(origin)s and c.size = %(size)s on conflict do nothing

-- newest --
-- The origin and the size of the newest checkpoint.
select origin, size from log_checkpoints
where origin = (select origin from log_origins order by number desc limit 1) order by size desc limit 1

-- pin --
-- Keep a checkpoint for good.
update log_checkpoints set pinned = true where origin = %(origin)s and size = %(size)s

-- all_checkpoints --
-- Every kept checkpoint, for a check of the tree.
select size, origin, root from log_checkpoints order by size, origin

-- all_tiles --
-- Every full tile of a level.
select level, tile, hashes, root from log_tiles where level = %s order by tile

-- levels --
-- The highest level that has a tile.
select coalesce(max(level), 0) from log_tiles

-- all_leaves --
-- Every leaf by position.
select i.position, e.leaf from log_index i join events e on e.seq = i.seq order by i.position

-- look --
-- The size of the log, its origin and what it continues, and the newest checkpoint.
select s.size, o.number, o.origin, o.continues, o.at_size, o.at_root, c.size, c.root,
    extract(epoch from clock_timestamp() - c.signed_at)::float8,
    clock_timestamp() from log_state s
cross join lateral (select * from log_origins order by number desc limit 1) o left join lateral (
    select size, root, signed_at from log_checkpoints where origin = o.origin order by size desc limit 1) c on true

-- note_standing --
-- Note what a process found, and since when.
insert into log_standing (verdict, detail, since) values (%s, %s, clock_timestamp()) on conflict (one) do update
set verdict = excluded.verdict, detail = excluded.detail, since = excluded.since
where (log_standing.verdict, log_standing.detail) is distinct from (excluded.verdict, excluded.detail)

-- lock_log --
-- Lock the size of the log, so that one process at a time signs or begins an origin.
select size from log_state for update

-- add_checkpoint --
-- Store a checkpoint, unless it is there.
insert into log_checkpoints (origin, size, root, note, signed_at) values (%s, %s, %s, %s, %s)
on conflict do nothing

-- note_key --
-- Note when a key signed first.
insert into log_keys (vkey, origin, first_signed_at) values (%s, %s, clock_timestamp()) on conflict do nothing

-- signed_for --
-- For how many seconds a key has signed.
select extract(epoch from clock_timestamp() - first_signed_at)::float8 from log_keys where vkey = %s

-- thin --
-- Delete checkpoints so that one a minute is left of the last day, and one an hour of the days before. Neither
-- pinned ones go nor those with a cosigner.
delete from log_checkpoints c where not c.pinned and c.signed_at < clock_timestamp() - interval '1 minute'
    and c.signed_at > clock_timestamp() - interval '3 days' and not exists (
        select from log_cosignatures s where s.origin = c.origin and s.size = c.size)
    and date_trunc(
        \include span
        , c.signed_at) = date_trunc(
        \include span
        , (select n.signed_at from log_checkpoints n where n.origin = c.origin and n.size > c.size
            order by n.size limit 1))

-- part span --
-- The stretch of which one checkpoint is kept, by the age of `c`.
case when c.signed_at > clock_timestamp() - interval '1 day' then 'minute' else 'hour' end

-- add_origin --
-- Begin a new origin.
insert into log_origins (number, origin, continues, at_size, at_root, began_at)
values (%s, %s, %s, %s, %s, clock_timestamp())
