-- Ends an attempt to register a client, with the client or without one. Too late an attempt changes nothing.
update provider_clients
set claimed_until = 0, sealed = %(sealed)s::text,
    registered_at = case when %(sealed)s::text is null then null else %(now)s::bigint end
where authority = %(authority)s and redirect_uri = %(redirect_uri)s and attempt = %(attempt)s
returning attempt
