-- compatible: yes
-- Subscriptions of accounts at the payment provider: a read model, in the scope of the account's person.
create table subscriptions (
    project_id         text   collate "C" not null,  -- the user id
    id                 text   collate "C" not null,
    revision           bigint not null,
    subscription_id    text   collate "C" not null,  -- the provider's
    customer_id        text   collate "C" not null,  -- the provider's
    status             text   not null,
    plan               text   not null,
    current_period_end bigint,
    created_at         bigint not null,
    updated_at         bigint not null,
    primary key (project_id, id)
);
create index subscriptions_of_provider on subscriptions (subscription_id);
create index subscriptions_customer on subscriptions (customer_id);
