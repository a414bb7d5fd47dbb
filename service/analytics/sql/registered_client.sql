-- The client that was registered at a provider, and the last attempt.
select attempt, claimed_until, sealed, registered_at from provider_clients
where authority = %(authority)s and redirect_uri = %(redirect_uri)s
