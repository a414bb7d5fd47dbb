-- Claims the next attempt to register a client, unless somebody else has claimed one since the last look.
insert into provider_clients as c (authority, redirect_uri, attempt, claimed_until)
values (%(authority)s, %(redirect_uri)s, 1, %(until)s)
on conflict (authority, redirect_uri) do update set attempt = c.attempt + 1, claimed_until = excluded.claimed_until
where c.attempt = %(seen)s and c.claimed_until <= %(now)s
returning attempt
