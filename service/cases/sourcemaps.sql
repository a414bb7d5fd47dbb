-- begin_blob --
-- Begin to store bytes that nothing keeps yet, in an active project with few of these. The row of the project is held
-- until the blob is there: a fence waits for it, and a purge after the fence finds it.
insert into source_map_blobs (project_id, id, kept, stored_at)
select p.id, %(blob_id)s, false, (select service_seconds())
from projects p
where p.project_id = %(project_id)s and p.id = %(project_id)s
    and owned_status(project => p.project_id, status => p.status) = 'active'
    and (select count(*) from source_map_blobs b where b.project_id = p.project_id and not b.kept) < %(most)s
for share of p

-- add_piece --
-- Store a piece of bytes that nothing keeps yet. Their row is held until it is there: whoever deletes that finds all
-- pieces afterwards.
insert into source_map_pieces (project_id, blob_id, number, content)
select b.project_id, b.id, %(number)s, %(content)s
from source_map_blobs b
where b.project_id = %(project_id)s and b.id = %(blob_id)s and not b.kept
for key share of b

-- next_piece --
-- The piece of a number, or the next one that there is.
select p.content
from source_map_pieces p
where p.project_id = %(project_id)s and p.blob_id = %(blob_id)s and p.number >= %(number)s
order by p.number
limit 1

-- verdict --
-- Why a map cannot be taken apart with a minified file, if somebody has found that.
select b.verdict
from source_map_blobs b
where b.project_id = %(project_id)s and b.id = %(blob_id)s and b.verdict is not null
    and b.verdict_with = %(source_blob_id)s

-- keep_verdict --
-- Keep with a map why it cannot be taken apart with a minified file.
update source_map_blobs b set verdict = %(verdict)s, verdict_with = %(source_blob_id)s
where b.project_id = %(project_id)s and b.id = %(blob_id)s

-- drop_blob --
-- Delete bytes unless something keeps them.
with over as (
    select b.project_id, b.id from source_map_blobs b
    where b.project_id = %(project_id)s and b.id = %(blob_id)s and not b.kept
    for update
), pieces as (
    delete from source_map_pieces p using over o where p.project_id = o.project_id and p.blob_id = o.id
)
delete from source_map_blobs b using over o where b.project_id = o.project_id and b.id = o.id

-- chunk_bytes --
-- How many bytes of a person's parts wait to be named.
select coalesce(sum(c.size), 0)::bigint from upload_chunks c where c.project_id = %(user_id)s

-- store_chunk --
-- Keep a part of a bundle for a while. The key is looked at again in the statement that writes: it may have ended since
-- the request began. Both rows are held, so that whoever ends the key or fences the account comes before the part,
-- which is not stored then, or after it.
insert into upload_chunks (project_id, id, size, content, stored_at)
select p.id, %(id)s, %(size)s, %(content)s, (select service_seconds())
from people p
join api_keys k on k.project_id = p.project_id and k.id = %(key_id)s and k.key_hash = %(digest)s
    and k.revoked_at is null
where p.project_id = %(user_id)s and p.id = %(user_id)s and p.status = 'active'
for share of p, k
on conflict (project_id, id) do update set stored_at = excluded.stored_at

-- chunks_there --
-- Those of some parts that a person has sent lately.
select c.id from upload_chunks c where c.project_id = %(user_id)s and c.id = any(%(ids)s)

-- chunk --
-- One part of a bundle.
select c.content from upload_chunks c where c.project_id = %(user_id)s and c.id = %(id)s

-- forget_chunks --
-- Delete parts that are stored elsewhere by now.
delete from upload_chunks c where c.project_id = %(user_id)s and c.id = any(%(ids)s)

-- forget_blobs --
-- Delete some of the oldest bytes that nothing keeps.
with over as (
    select b.project_id, b.id from source_map_blobs b
    where not b.kept and b.stored_at < (select service_seconds()) - %(kept)s
    order by b.stored_at limit %(most)s
    for update skip locked
), pieces as (
    delete from source_map_pieces p using over o where p.project_id = o.project_id and p.blob_id = o.id
)
delete from source_map_blobs b using over o where b.project_id = o.project_id and b.id = o.id

-- forget_old_chunks --
-- Delete some of the oldest parts that nobody has named.
delete from upload_chunks c
using (
    select u.project_id, u.id from upload_chunks u
    where u.stored_at < (select service_seconds()) - %(kept)s
    order by u.stored_at limit %(most)s
    for update skip locked
) o
where c.project_id = o.project_id and c.id = o.id

-- latest_error --
-- What the latest error of a case, or of one merged into it, says of its frames.
with ids as (
    select c.id from cases c where c.project_id = %(project_id)s and c.id = %(case_id)s
    union all
    select m.id from cases m where m.project_id = %(project_id)s and m.merged_into = %(case_id)s
)
select e.release, e.message, e.extra::text, e.packed
from ids i
cross join lateral (
    select * from log_events l where l.project_id = %(project_id)s and l.case_id = i.id
    order by l.received_at desc, l.id desc limit 1) e
order by e.received_at desc, e.id desc
limit 1

-- source_maps --
-- A page of the files of a project, newest first.
select row_to_json(m)::text
from source_maps m
where m.project_id = %(project_id)s and m.removed_at is null and (m.stored_at, m.id) < (%(at)s, %(id)s)
order by m.stored_at desc, m.id desc
limit %(limit)s

-- source_maps_of_release --
-- A page of the files of a release, newest first.
select row_to_json(m)::text
from source_maps m
where m.project_id = %(project_id)s and m.removed_at is null and (m.stored_at, m.id) < (%(at)s, %(id)s)
    and m.release = %(release)s
order by m.stored_at desc, m.id desc
limit %(limit)s

-- source_maps_for --
-- The files that frames may belong to: by debug id, and by URL within a release. Each part takes its own index. A file
-- has few names in a release, and newest first means that an upload counts.
select row_to_json(m)::text
from source_maps m
where m.project_id = %(project_id)s and m.debug_id = any(%(debug_ids)s) and m.removed_at is null
union all
select row_to_json(m)::text
from (
    select m.* from source_maps m
    where m.project_id = %(project_id)s and m.release = %(release)s and m.source_url = any(%(urls)s)
        and m.removed_at is null
    order by m.stored_at desc, m.id desc limit %(most)s) m
