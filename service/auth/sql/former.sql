-- The account that a key was of which its deletion took along: the deletion remembers it, to show it the receipt
-- (G-130).
select d.account_id
from deletions d
where d.api_key_sha256 = %(digest)s and d.api_key_sha256 <> '' and d.kind = 'account'
    and (d.deleted_at is null or d.deleted_at > (select service_seconds()) - %(kept)s)
limit 1
