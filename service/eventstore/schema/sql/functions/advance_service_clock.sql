-- Moves the test clock forward by `seconds` and answers the new offset in seconds. Whether that is allowed is the
-- caller's question.
create or replace function advance_service_clock(seconds bigint) returns bigint language sql as $body$
    update service_clock set offset_seconds = offset_seconds + seconds returning offset_seconds
$body$;
