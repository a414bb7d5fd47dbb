-- compatible: yes
-- Of the cases that errors have opened in the hour those by the public DSN, which have a share of their own (G-184). A
-- release of before, beside this one, counts none here, and begins an hour without setting it back: `opened` bounds it.
alter table case_rates add column opened_public bigint not null default 0;
