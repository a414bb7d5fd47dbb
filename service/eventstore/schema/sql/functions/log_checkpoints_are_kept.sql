-- Trigger of log_checkpoints. A checkpoint is never changed, but that a proof may pin it. One that is neither pinned
-- nor cosigned may go once its log has a larger one.
create or replace function log_checkpoints_are_kept() returns trigger language plpgsql
set search_path = public, pg_temp as $body$
declare
    kept log_checkpoints;
begin
    if tg_op = 'UPDATE' then
        kept := new;
        kept.pinned := old.pinned;
        if kept *= old and new.pinned then
            return new;
        end if;
    elsif tg_op = 'DELETE' then
        if not old.pinned
            and exists (select from log_checkpoints c where c.origin = old.origin and c.size > old.size)
            and not exists (select from log_cosignatures s where s.origin = old.origin and s.size = old.size)
        then
            return old;
        end if;
    end if;
    raise exception 'checkpoints are immutable' using errcode = 'restrict_violation';
end
$body$;
