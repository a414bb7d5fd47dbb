-- compatible: yes
-- The receipts of answers of connected providers: hashes of question and answer, with the project that was asked and the
-- window. A plan that names one as its history is compared with them (G-183).
create table provider_receipts (
    project_id          text   collate "C" not null,
    sha256              text   collate "C" not null,
    provider_project_id bigint not null,
    since               bigint not null,
    until               bigint not null,
    answered_at         bigint not null,
    primary key (project_id, sha256)
);
create index provider_receipts_age on provider_receipts (project_id, answered_at);
