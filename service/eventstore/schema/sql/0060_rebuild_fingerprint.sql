-- By what a rebuild in progress folds: one that other code, or another shape of the table, takes up begins anew.
-- Those that are under way while this is applied say nothing of it, and so begin anew too.
alter table rebuilds add column fingerprint text not null default '';
