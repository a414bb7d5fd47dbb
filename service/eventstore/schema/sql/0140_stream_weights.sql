-- compatible: yes
-- What a load of a stream reads is known before it is read: heads count the bytes of payload that were appended, and a
-- snapshot keeps the count of its revision and its own size. The count starts anywhere; only differences matter. -1:
-- not counted, as streams and snapshots from before this are until their next snapshot.
alter table stream_heads add column bytes bigint not null default -1;
-- What owners' documents brought lately, as JSON: [[epoch seconds, bytes], ...].
alter table stream_heads add column documents text;

alter table snapshots add column bytes bigint not null default -1;
alter table snapshots add column size integer not null default 0;  -- bytes of the state's JSON
