-- The one source of time, and the salt of this installation.

-- How far the test clock was moved ahead. One row, so that every process sees the same time; it only grows, because
-- leases and windows that ended must stay ended.
create table service_clock (
    one            boolean primary key default true check (one),
    offset_seconds bigint not null default 0 check (offset_seconds >= 0)
);
insert into service_clock default values;

create function service_clock_only_grows() returns trigger language plpgsql as $body$
begin
    if tg_op = 'UPDATE' and new.offset_seconds >= old.offset_seconds then
        return new;
    end if;
    raise exception 'the test clock only moves forward' using errcode = 'restrict_violation';
end
$body$;
create trigger service_clock_grows before update or delete on service_clock
    for each row execute function service_clock_only_grows();
create trigger service_clock_not_truncated before truncate on service_clock
    for each statement execute function service_clock_only_grows();

-- Volatile, and the wall clock rather than the transaction's: now() stands still while a statement waits for a lock,
-- and would accept a lease that ended meanwhile.
create function service_now() returns timestamptz language sql volatile as $body$
    select clock_timestamp() + make_interval(secs => offset_seconds) from service_clock
$body$;

-- Move the test clock forward and return the new offset in seconds. Whether that is allowed is the caller's question.
create function advance_service_clock(seconds bigint) returns bigint language sql as $body$
    update service_clock set offset_seconds = offset_seconds + seconds returning offset_seconds
$body$;

-- 32 random bytes as hex. They make ids that are derived from names differ between installations.
create table installation (
    one  boolean primary key default true check (one),
    salt text not null check (length(salt) = 64)
);
-- gen_random_uuid() has 122 random bits from the operating system; three of them fill a SHA-256.
insert into installation (salt)
select encode(sha256(convert_to(concat(gen_random_uuid(), gen_random_uuid(), gen_random_uuid()), 'UTF8')), 'hex');
