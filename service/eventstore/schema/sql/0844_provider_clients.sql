-- compatible: yes
-- The clients that this installation has registered for itself at providers (G-180): facts that no event holds. A lost
-- row costs another registration, and no grant, since each holds the client that it was given to.
create table provider_clients (
    authority     text   collate "C" not null,  -- the address where people sign in
    redirect_uri  text   collate "C" not null,  -- where they are sent back to
    attempt       bigint not null,              -- counts the attempts: one alone is under way, and only it records
    claimed_until bigint not null,              -- epoch seconds: until then an attempt is under way
    sealed        text,                         -- id and secret; null until an attempt has succeeded
    registered_at bigint,                       -- epoch seconds
    primary key (authority, redirect_uri)
);
