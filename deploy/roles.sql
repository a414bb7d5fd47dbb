-- Run once by psql, as a superuser, in any database of a new PostgreSQL (compose.yaml lets its image do it): a role
-- that owns the tables and migrates, a role that serves and owns nothing, and the database between them. A third role,
-- which the one that serves takes for callers' own queries, sees three views. Passwords are read from the files that
-- OWNER_PASSWORD_FILE and SERVING_PASSWORD_FILE name.
\set ON_ERROR_STOP on
\set owner_password `cat "$OWNER_PASSWORD_FILE"`
\set serving_password `cat "$SERVING_PASSWORD_FILE"`
create role service_owner login password :'owner_password';
create role service login password :'serving_password';
create role service_queries;
grant service_queries to service;
create database service owner service_owner;
revoke connect on database service from public;
grant connect on database service to service;
