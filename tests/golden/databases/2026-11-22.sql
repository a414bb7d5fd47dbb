--
-- PostgreSQL database dump
--


-- Dumped from database version 18.6
-- Dumped by pg_dump version 18.6

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: procrastinate_job_event_type; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.procrastinate_job_event_type AS ENUM (
    'deferred',
    'started',
    'deferred_for_retry',
    'failed',
    'succeeded',
    'cancelled',
    'abort_requested',
    'aborted',
    'scheduled',
    'retried'
);


--
-- Name: procrastinate_job_status; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.procrastinate_job_status AS ENUM (
    'todo',
    'doing',
    'succeeded',
    'failed',
    'cancelled',
    'aborting',
    'aborted'
);


--
-- Name: procrastinate_job_to_defer_v1; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.procrastinate_job_to_defer_v1 AS (
	queue_name character varying,
	task_name character varying,
	priority integer,
	lock text,
	queueing_lock text,
	args jsonb,
	scheduled_at timestamp with time zone
);


--
-- Name: advance_service_clock(bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.advance_service_clock(seconds bigint) RETURNS bigint
    LANGUAGE sql
    AS $$
    update service_clock set offset_seconds = offset_seconds + seconds returning offset_seconds
$$;


--
-- Name: ensure_partition(text, bigint, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.ensure_partition(telemetry text, day bigint, most_moved bigint DEFAULT 100000) RETURNS boolean
    LANGUAGE plpgsql
    AS $_$
declare
    fallback constant text := telemetry || '_default';
    wanted   constant text := telemetry || '_' || to_char(to_timestamp(day) at time zone 'UTC', 'YYYYMMDD');
    caught   bigint;
begin
    if to_regclass(wanted) is not null then
        return true;
    end if;
    execute format('lock table %I in access exclusive mode', fallback);
    execute format('select count(*) from (select 1 from %I where received_at >= $1 and received_at < $1 + 86400
        limit $2 + 1) c', fallback) into caught using day, most_moved;
    if caught > most_moved then
        return false;
    end if;
    execute format('create table %I (like %I including defaults)', wanted, telemetry);
    if caught > 0 then
        execute format('with moved as (delete from %I where received_at >= $1 and received_at < $1 + 86400 returning *)
            insert into %I select * from moved', fallback, wanted) using day;
    end if;
    execute format('alter table %I attach partition %I for values from (%s) to (%s)',
        telemetry, wanted, day, day + 86400);
    return true;
end
$_$;


--
-- Name: events_are_immutable(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.events_are_immutable() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    if tg_op = 'UPDATE'
       and new.payload is null and new.salt is null
       and current_setting('service.erase_project', true) = old.project_id
       and (to_jsonb(new) - 'payload' - 'salt') = (to_jsonb(old) - 'payload' - 'salt')
    then
        return new;
    end if;
    raise exception 'events are immutable' using errcode = 'restrict_violation';
end
$$;


--
-- Name: ingest_count(bigint[], bigint, text[], text[], bigint[], text[], text[], text[], text, bigint, json, json, json, json, json); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.ingest_count(gates bigint[], flusher_lock bigint, head_projects text[], head_streams text[], head_revisions bigint[], senders text[], dsn_hashes text[], accounts text[], flusher text, number bigint, new_logs json, new_analytics json, new_cases json, new_users json, new_usage json) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
declare
    gate     bigint;
    as_known boolean;
    moment   timestamptz;
begin
    foreach gate in array gates loop
        if not pg_try_advisory_xact_lock_shared(gate) then
            return null;
        end if;
    end loop;
    if not pg_try_advisory_xact_lock(flusher_lock) then
        return null;
    end if;
    select not exists (select from ingest_flushers f where f.id = flusher and f.given_up >= number)
        and cardinality(senders) = (
            select count(*) from unnest(senders, dsn_hashes, accounts) as known(project_id, dsn_hash, account_id)
            join projects p on p.project_id = known.project_id and p.id = known.project_id
                and p.dsn_hash = known.dsn_hash
            where p.status = 'active' and known.account_id = paying_account(p.project_id, p.created_by))
        and cardinality(head_projects) = (
            select count(*) from (
                select from unnest(head_projects, head_streams, head_revisions)
                    as known(project_id, stream_id, revision)
                join stream_heads h using (project_id, stream_id, revision) for share of h skip locked
            ) held)
    into as_known;
    if not as_known then
        return null;
    end if;
    moment := service_now();
    perform ingest_store(moment, flusher, number, new_logs, new_analytics, null, new_cases, new_users, new_usage);
    return floor(extract(epoch from moment));
end
$$;


--
-- Name: ingest_lock(bigint[], bigint[], text[], text[], json, text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.ingest_lock(gates bigint[], wanted bigint[], head_projects text[], head_streams text[], record_names json, senders text[]) RETURNS json
    LANGUAGE plpgsql
    AS $$
declare
    got_gates  json;
    got_names  json;
    got_heads  json;
    found      json;
    projects   json;
begin
    select json_agg(g) into got_gates from unnest(gates) g where pg_try_advisory_xact_lock_shared(g);
    select json_agg(w) into got_names from unnest(wanted) w where pg_try_advisory_xact_lock(w);
    with held as (
        select h.project_id, h.stream_id, h.revision from stream_heads h
        where (h.project_id, h.stream_id) in (select * from unnest(head_projects, head_streams))
        order by h.project_id, h.stream_id for share of h skip locked
    )
    select json_agg(json_build_array(h.project_id, h.stream_id, h.revision)) into got_heads from held h;
    if record_names is not null then
        select json_agg(json_build_array(i.project_id, i.principal, i.operation, i.key, i.fingerprint, i.command_id,
            i.status, convert_from(i.body, 'UTF8'))) into found
        from json_to_recordset(record_names) as n(project_id text, principal text, operation text, key text)
        join idempotency i on i.project_id = n.project_id and i.principal = n.principal
            and i.operation = n.operation and i.key = n.key;
    end if;
    select ingest_projects(senders) into projects;
    return json_build_object('moment', service_now(), 'gates', got_gates, 'names', got_names, 'heads', got_heads,
        'records', found, 'projects', projects);
end
$$;


--
-- Name: ingest_projects(text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.ingest_projects(wanted text[]) RETURNS json
    LANGUAGE sql STABLE
    AS $$
    select json_agg(json_build_array(p.project_id, p.dsn_hash, p.status, paying_account(p.project_id, p.created_by)))
    from projects p where p.project_id = any(wanted) and p.id = p.project_id
$$;


--
-- Name: ingest_store(timestamp with time zone, text, bigint, json, json, json, json, json, json); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.ingest_store(moment timestamp with time zone, flusher text, number bigint, new_logs json, new_analytics json, new_records json, new_cases json, new_users json, new_usage json) RETURNS void
    LANGUAGE plpgsql
    AS $$
declare
    seconds  constant bigint := floor(extract(epoch from moment));
    midnight constant bigint := seconds - seconds % 86400;
begin
    if new_logs is not null then
        insert into log_events (project_id, received_at, id, level, message, environment, release, user_id, user_data,
            tags, extra, case_id, fingerprint, grouped_by, marker_hash)
        select u.project_id, seconds, u.id, u.level, u.message, u.environment, u.release, u.user_id, u.user_data,
            u.tags, u.extra, u.case_id, u.fingerprint, u.grouped_by, u.marker_hash
        from json_to_recordset(new_logs) as u(project_id text, id text, level text, message text, environment text,
            release text, user_id text, user_data jsonb, tags jsonb, extra jsonb, case_id text, fingerprint text,
            grouped_by text, marker_hash text);
    end if;

    if new_analytics is not null then
        insert into analytics_events (project_id, received_at, id, event, distinct_id, properties, marker_hash)
        select u.project_id, seconds, u.id, u.event, u.distinct_id, u.properties, u.marker_hash
        from json_to_recordset(new_analytics) as u(project_id text, id text, event text, distinct_id text,
            properties jsonb, marker_hash text);
    end if;

    if new_records is not null then
        insert into idempotency (project_id, principal, operation, key, fingerprint, command_id, client_key, status,
            body, headers, created_at)
        select u.project_id, u.principal, u.operation, u.key, u.fingerprint, u.command_id, true, u.status,
            convert_to(u.body, 'UTF8'), '{}', moment
        from json_to_recordset(new_records) as u(project_id text, principal text, operation text, key text,
            fingerprint text, command_id text, status int, body text);
    end if;

    if new_cases is not null then
        -- Who sends a new environment or release with every event does not make the row grow for ever.
        insert into case_stats as t (project_id, id, title, message, culprit, level, environment, release,
            environments, releases, unmarked, event_count, users_affected, first_seen_at, last_seen_at)
        select u.project_id, u.id, u.title, u.message, u.culprit, u.level, u.environment, u.release,
            u.environments[1:100], u.releases[1:100], u.unmarked, u.event_count, 0, seconds, seconds
        from json_to_recordset(new_cases) as u(project_id text, id text, title text, message text, culprit text,
            level text, environment text, release text, environments text[], releases text[], unmarked boolean,
            event_count bigint)
        on conflict (project_id, id) do update set
            level = excluded.level, environment = excluded.environment, release = excluded.release,
            environments = case when t.environments @> excluded.environments then t.environments else
                (t.environments || array(select v from unnest(excluded.environments) v
                    where v <> all (t.environments)))[1:100] end,
            releases = case when t.releases @> excluded.releases then t.releases else
                (t.releases || array(select v from unnest(excluded.releases) v
                    where v <> all (t.releases)))[1:100] end,
            unmarked = t.unmarked or excluded.unmarked,
            event_count = t.event_count + excluded.event_count,
            last_seen_at = greatest(t.last_seen_at, excluded.last_seen_at);
    end if;

    if new_users is not null then
        -- xmax is 0 only in a row that was inserted, so each person counts once.
        with seen as (
            insert into case_users as t (project_id, case_id, user_id, user_email, error_count, first_seen_at,
                last_seen_at)
            select u.project_id, u.case_id, u.user_id, u.user_email, u.error_count, seconds, seconds
            from json_to_recordset(new_users) as u(project_id text, case_id text, user_id text, user_email text,
                error_count bigint)
            on conflict (project_id, case_id, user_id) do update set
                user_email = coalesce(excluded.user_email, t.user_email),
                error_count = t.error_count + excluded.error_count,
                last_seen_at = greatest(t.last_seen_at, excluded.last_seen_at)
            returning t.project_id, t.case_id, t.xmax = 0 as fresh
        ), fresh as (
            select s.project_id, s.case_id, count(*) as people from seen s where s.fresh group by 1, 2
        )
        update case_stats t set users_affected = t.users_affected + f.people
        from fresh f where t.project_id = f.project_id and t.id = f.case_id;
    end if;

    insert into usage_days as t (project_id, account_id, day, errors, analytics, suppressed, scrubbed,
        last_received_at)
    select u.project_id, u.account_id, midnight, u.errors, u.analytics, u.suppressed, u.scrubbed, seconds
    from json_to_recordset(new_usage) as u(project_id text, account_id text, errors bigint, analytics bigint,
        suppressed bigint, scrubbed bigint)
    on conflict (project_id, account_id, day) do update set
        errors = t.errors + excluded.errors,
        analytics = t.analytics + excluded.analytics,
        suppressed = t.suppressed + excluded.suppressed,
        scrubbed = t.scrubbed + excluded.scrubbed,
        last_received_at = greatest(t.last_received_at, excluded.last_received_at);

    insert into ingest_flushers as t (id, batch, seen_at) values (flusher, number, seconds)
    on conflict (id) do update set batch = excluded.batch, seen_at = excluded.seen_at;
end
$$;


--
-- Name: paying_account(text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.paying_account(project text, maker text) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    select coalesce((select m.user_id from memberships m where m.project_id = project and m.role = 'owner'
        order by m.created_at, m.id limit 1), maker)
$$;


--
-- Name: procrastinate_cancel_job_v1(bigint, boolean, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_cancel_job_v1(job_id bigint, abort boolean, delete_job boolean) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    _job_id bigint;
BEGIN
    IF delete_job THEN
        DELETE FROM procrastinate_jobs
        WHERE id = job_id AND status = 'todo'
        RETURNING id INTO _job_id;
    END IF;
    IF _job_id IS NULL THEN
        IF abort THEN
            UPDATE procrastinate_jobs
            SET abort_requested = true,
                status = CASE status
                    WHEN 'todo' THEN 'cancelled'::procrastinate_job_status ELSE status
                END
            WHERE id = job_id AND status IN ('todo', 'doing')
            RETURNING id INTO _job_id;
        ELSE
            UPDATE procrastinate_jobs
            SET status = 'cancelled'::procrastinate_job_status
            WHERE id = job_id AND status = 'todo'
            RETURNING id INTO _job_id;
        END IF;
    END IF;
    RETURN _job_id;
END;
$$;


--
-- Name: procrastinate_defer_jobs_v1(public.procrastinate_job_to_defer_v1[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_defer_jobs_v1(jobs public.procrastinate_job_to_defer_v1[]) RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    job_ids bigint[];
BEGIN
    WITH inserted_jobs AS (
        INSERT INTO procrastinate_jobs (queue_name, task_name, priority, lock, queueing_lock, args, scheduled_at)
        SELECT (job).queue_name,
               (job).task_name,
               (job).priority,
               (job).lock,
               (job).queueing_lock,
               (job).args,
               (job).scheduled_at
        FROM unnest(jobs) AS job
        RETURNING id
    )
    SELECT array_agg(id) FROM inserted_jobs INTO job_ids;

    RETURN job_ids;
END;
$$;


--
-- Name: procrastinate_defer_periodic_job_v2(character varying, character varying, character varying, character varying, integer, character varying, bigint, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_defer_periodic_job_v2(_queue_name character varying, _lock character varying, _queueing_lock character varying, _task_name character varying, _priority integer, _periodic_id character varying, _defer_timestamp bigint, _args jsonb) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
	_job_id bigint;
	_defer_id bigint;
BEGIN
    INSERT
        INTO procrastinate_periodic_defers (task_name, periodic_id, defer_timestamp)
        VALUES (_task_name, _periodic_id, _defer_timestamp)
        ON CONFLICT DO NOTHING
        RETURNING id into _defer_id;

    IF _defer_id IS NULL THEN
        RETURN NULL;
    END IF;

    UPDATE procrastinate_periodic_defers
        SET job_id = (
            SELECT COALESCE((
                SELECT unnest(procrastinate_defer_jobs_v1(
                    ARRAY[
                        ROW(
                            _queue_name,
                            _task_name,
                            _priority,
                            _lock,
                            _queueing_lock,
                            _args,
                            NULL::timestamptz
                        )
                    ]::procrastinate_job_to_defer_v1[]
                ))
            ), NULL)
        )
        WHERE id = _defer_id
        RETURNING job_id INTO _job_id;

    DELETE
        FROM procrastinate_periodic_defers
        USING (
            SELECT id
            FROM procrastinate_periodic_defers
            WHERE procrastinate_periodic_defers.task_name = _task_name
            AND procrastinate_periodic_defers.periodic_id = _periodic_id
            AND procrastinate_periodic_defers.defer_timestamp < _defer_timestamp
            ORDER BY id
            FOR UPDATE
        ) to_delete
        WHERE procrastinate_periodic_defers.id = to_delete.id;

    RETURN _job_id;
END;
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: procrastinate_jobs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.procrastinate_jobs (
    id bigint NOT NULL,
    queue_name character varying(128) NOT NULL,
    task_name character varying(128) NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    lock text,
    queueing_lock text,
    args jsonb DEFAULT '{}'::jsonb NOT NULL,
    status public.procrastinate_job_status DEFAULT 'todo'::public.procrastinate_job_status NOT NULL,
    scheduled_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    abort_requested boolean DEFAULT false NOT NULL,
    worker_id bigint,
    CONSTRAINT check_not_todo_abort_requested CHECK ((NOT ((status = 'todo'::public.procrastinate_job_status) AND (abort_requested = true))))
);


--
-- Name: procrastinate_fetch_job_v2(character varying[], bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_fetch_job_v2(target_queue_names character varying[], p_worker_id bigint) RETURNS public.procrastinate_jobs
    LANGUAGE plpgsql
    AS $$
DECLARE
	found_jobs procrastinate_jobs;
BEGIN
    WITH candidate AS (
        SELECT jobs.*
            FROM procrastinate_jobs AS jobs
            WHERE
                -- reject the job if its lock has earlier or higher priority jobs
                NOT EXISTS (
                    SELECT 1
                        FROM procrastinate_jobs AS other_jobs
                        WHERE
                            jobs.lock IS NOT NULL
                            AND other_jobs.lock = jobs.lock
                            AND (
                                -- job with same lock is already running
                                other_jobs.status = 'doing'
                                OR
                                -- job with same lock is waiting and has higher priority (or same priority but was queued first)
                                (
                                    other_jobs.status = 'todo'
                                    AND (
                                        other_jobs.priority > jobs.priority
                                        OR (
                                        other_jobs.priority = jobs.priority
                                        AND other_jobs.id < jobs.id
                                        )
                                    )
                                )
                            )
                )
                AND jobs.status = 'todo'
                AND (target_queue_names IS NULL OR jobs.queue_name = ANY( target_queue_names ))
                AND (jobs.scheduled_at IS NULL OR jobs.scheduled_at <= now())
            ORDER BY jobs.priority DESC, jobs.id ASC LIMIT 1
            FOR UPDATE OF jobs SKIP LOCKED
    )
    UPDATE procrastinate_jobs
        SET status = 'doing', worker_id = p_worker_id
        FROM candidate
        WHERE procrastinate_jobs.id = candidate.id
        RETURNING procrastinate_jobs.* INTO found_jobs;

 RETURN found_jobs;
END;
$$;


--
-- Name: procrastinate_finish_job_v1(bigint, public.procrastinate_job_status, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_finish_job_v1(job_id bigint, end_status public.procrastinate_job_status, delete_job boolean) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    _job_id bigint;
BEGIN
    IF end_status NOT IN ('succeeded', 'failed', 'aborted') THEN
        RAISE 'End status should be either "succeeded", "failed" or "aborted" (job id: %)', job_id;
    END IF;
    IF delete_job THEN
        DELETE FROM procrastinate_jobs
        WHERE id = job_id AND status IN ('todo', 'doing')
        RETURNING id INTO _job_id;
    ELSE
        UPDATE procrastinate_jobs
        SET status = end_status,
            abort_requested = false,
            attempts = CASE status
                WHEN 'doing' THEN attempts + 1 ELSE attempts
            END
        WHERE id = job_id AND status IN ('todo', 'doing')
        RETURNING id INTO _job_id;
    END IF;
    IF _job_id IS NULL THEN
        RAISE 'Job was not found or not in "doing" or "todo" status (job id: %)', job_id;
    END IF;
END;
$$;


--
-- Name: procrastinate_notify_queue_abort_job_v1(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_notify_queue_abort_job_v1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    payload TEXT;
BEGIN
    SELECT json_build_object('type', 'abort_job_requested', 'job_id', NEW.id)::text INTO payload;
	PERFORM pg_notify('procrastinate_queue_v1#' || NEW.queue_name, payload);
	PERFORM pg_notify('procrastinate_any_queue_v1', payload);
	RETURN NEW;
END;
$$;


--
-- Name: procrastinate_notify_queue_job_inserted_v1(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_notify_queue_job_inserted_v1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    payload TEXT;
BEGIN
    SELECT json_build_object('type', 'job_inserted', 'job_id', NEW.id)::text INTO payload;
	PERFORM pg_notify('procrastinate_queue_v1#' || NEW.queue_name, payload);
	PERFORM pg_notify('procrastinate_any_queue_v1', payload);
	RETURN NEW;
END;
$$;


--
-- Name: procrastinate_prune_stalled_workers_v1(double precision); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_prune_stalled_workers_v1(seconds_since_heartbeat double precision) RETURNS TABLE(worker_id bigint)
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN QUERY
    DELETE FROM procrastinate_workers
    WHERE last_heartbeat < NOW() - (seconds_since_heartbeat || 'SECOND')::INTERVAL
    RETURNING procrastinate_workers.id;
END;
$$;


--
-- Name: procrastinate_register_worker_v1(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_register_worker_v1() RETURNS TABLE(worker_id bigint)
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN QUERY
    INSERT INTO procrastinate_workers DEFAULT VALUES
    RETURNING procrastinate_workers.id;
END;
$$;


--
-- Name: procrastinate_retry_job_v1(bigint, timestamp with time zone, integer, character varying, character varying); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_retry_job_v1(job_id bigint, retry_at timestamp with time zone, new_priority integer, new_queue_name character varying, new_lock character varying) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    _job_id bigint;
    _abort_requested boolean;
BEGIN
    SELECT abort_requested FROM procrastinate_jobs
    WHERE id = job_id AND status = 'doing'
    FOR UPDATE
    INTO _abort_requested;
    IF _abort_requested THEN
        UPDATE procrastinate_jobs
        SET status = 'failed'::procrastinate_job_status
        WHERE id = job_id AND status = 'doing'
        RETURNING id INTO _job_id;
    ELSE
        UPDATE procrastinate_jobs
        SET status = 'todo'::procrastinate_job_status,
            attempts = attempts + 1,
            scheduled_at = retry_at,
            priority = COALESCE(new_priority, priority),
            queue_name = COALESCE(new_queue_name, queue_name),
            lock = COALESCE(new_lock, lock)
        WHERE id = job_id AND status = 'doing'
        RETURNING id INTO _job_id;
    END IF;

    IF _job_id IS NULL THEN
        RAISE 'Job was not found or not in "doing" status (job id: %)', job_id;
    END IF;
END;
$$;


--
-- Name: procrastinate_retry_job_v2(bigint, timestamp with time zone, integer, character varying, character varying); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_retry_job_v2(job_id bigint, retry_at timestamp with time zone, new_priority integer, new_queue_name character varying, new_lock character varying) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    _job_id bigint;
    _abort_requested boolean;
    _current_status procrastinate_job_status;
BEGIN
    SELECT status, abort_requested FROM procrastinate_jobs
    WHERE id = job_id AND status IN ('doing', 'failed')
    FOR UPDATE
    INTO _current_status, _abort_requested;
    IF _current_status = 'doing' AND _abort_requested THEN
        UPDATE procrastinate_jobs
        SET status = 'failed'::procrastinate_job_status
        WHERE id = job_id AND status = 'doing'
        RETURNING id INTO _job_id;
    ELSE
        UPDATE procrastinate_jobs
        SET status = 'todo'::procrastinate_job_status,
            attempts = attempts + 1,
            scheduled_at = retry_at,
            priority = COALESCE(new_priority, priority),
            queue_name = COALESCE(new_queue_name, queue_name),
            lock = COALESCE(new_lock, lock)
        WHERE id = job_id AND status IN ('doing', 'failed')
        RETURNING id INTO _job_id;
    END IF;

    IF _job_id IS NULL THEN
        RAISE 'Job was not found or has an invalid status to retry (job id: %)', job_id;
    END IF;

END;
$$;


--
-- Name: procrastinate_trigger_abort_requested_events_procedure_v1(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_trigger_abort_requested_events_procedure_v1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO procrastinate_events(job_id, type)
        VALUES (NEW.id, 'abort_requested'::procrastinate_job_event_type);
    RETURN NEW;
END;
$$;


--
-- Name: procrastinate_trigger_function_scheduled_events_v1(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_trigger_function_scheduled_events_v1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO procrastinate_events(job_id, type, at)
        VALUES (NEW.id, 'scheduled'::procrastinate_job_event_type, NEW.scheduled_at);

	RETURN NEW;
END;
$$;


--
-- Name: procrastinate_trigger_function_status_events_insert_v1(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_trigger_function_status_events_insert_v1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO procrastinate_events(job_id, type)
        VALUES (NEW.id, 'deferred'::procrastinate_job_event_type);
	RETURN NEW;
END;
$$;


--
-- Name: procrastinate_trigger_function_status_events_update_v1(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_trigger_function_status_events_update_v1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    WITH t AS (
        SELECT CASE
            WHEN OLD.status = 'todo'::procrastinate_job_status
                AND NEW.status = 'doing'::procrastinate_job_status
                THEN 'started'::procrastinate_job_event_type
            WHEN OLD.status = 'doing'::procrastinate_job_status
                AND NEW.status = 'todo'::procrastinate_job_status
                THEN 'deferred_for_retry'::procrastinate_job_event_type
            WHEN OLD.status = 'doing'::procrastinate_job_status
                AND NEW.status = 'failed'::procrastinate_job_status
                THEN 'failed'::procrastinate_job_event_type
            WHEN OLD.status = 'doing'::procrastinate_job_status
                AND NEW.status = 'succeeded'::procrastinate_job_status
                THEN 'succeeded'::procrastinate_job_event_type
            WHEN OLD.status = 'todo'::procrastinate_job_status
                AND (
                    NEW.status = 'cancelled'::procrastinate_job_status
                    OR NEW.status = 'failed'::procrastinate_job_status
                    OR NEW.status = 'succeeded'::procrastinate_job_status
                )
                THEN 'cancelled'::procrastinate_job_event_type
            WHEN OLD.status = 'doing'::procrastinate_job_status
                AND NEW.status = 'aborted'::procrastinate_job_status
                THEN 'aborted'::procrastinate_job_event_type
            WHEN OLD.status = 'failed'::procrastinate_job_status
                AND NEW.status = 'todo'::procrastinate_job_status
                THEN 'retried'::procrastinate_job_event_type
            ELSE NULL
        END as event_type
    )
    INSERT INTO procrastinate_events(job_id, type)
        SELECT NEW.id, t.event_type
        FROM t
        WHERE t.event_type IS NOT NULL;
	RETURN NEW;
END;
$$;


--
-- Name: procrastinate_unlink_periodic_defers_v1(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_unlink_periodic_defers_v1() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE procrastinate_periodic_defers
    SET job_id = NULL
    WHERE job_id = OLD.id;
    RETURN OLD;
END;
$$;


--
-- Name: procrastinate_unregister_worker_v1(bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_unregister_worker_v1(worker_id bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM procrastinate_workers
    WHERE id = worker_id;
END;
$$;


--
-- Name: procrastinate_update_heartbeat_v1(bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.procrastinate_update_heartbeat_v1(worker_id bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE procrastinate_workers
    SET last_heartbeat = NOW()
    WHERE id = worker_id;
END;
$$;


--
-- Name: service_clock_only_grows(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.service_clock_only_grows() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    if tg_op = 'UPDATE' and new.offset_seconds >= old.offset_seconds then
        return new;
    end if;
    raise exception 'the test clock only moves forward' using errcode = 'restrict_violation';
end
$$;


--
-- Name: service_now(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.service_now() RETURNS timestamp with time zone
    LANGUAGE sql
    AS $$
    select clock_timestamp() + make_interval(secs => offset_seconds) from service_clock
$$;


--
-- Name: analytics_events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.analytics_events (
    project_id text NOT NULL COLLATE pg_catalog."C",
    received_at bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    event text NOT NULL COLLATE pg_catalog."C",
    distinct_id text NOT NULL COLLATE pg_catalog."C",
    properties jsonb NOT NULL,
    marker_hash text COLLATE pg_catalog."C"
)
PARTITION BY RANGE (received_at);


--
-- Name: analytics_events_20261121; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.analytics_events_20261121 (
    project_id text CONSTRAINT analytics_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT analytics_events_received_at_not_null NOT NULL,
    id text CONSTRAINT analytics_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    event text CONSTRAINT analytics_events_event_not_null NOT NULL COLLATE pg_catalog."C",
    distinct_id text CONSTRAINT analytics_events_distinct_id_not_null NOT NULL COLLATE pg_catalog."C",
    properties jsonb CONSTRAINT analytics_events_properties_not_null NOT NULL,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: analytics_events_20261122; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.analytics_events_20261122 (
    project_id text CONSTRAINT analytics_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT analytics_events_received_at_not_null NOT NULL,
    id text CONSTRAINT analytics_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    event text CONSTRAINT analytics_events_event_not_null NOT NULL COLLATE pg_catalog."C",
    distinct_id text CONSTRAINT analytics_events_distinct_id_not_null NOT NULL COLLATE pg_catalog."C",
    properties jsonb CONSTRAINT analytics_events_properties_not_null NOT NULL,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: analytics_events_20261123; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.analytics_events_20261123 (
    project_id text CONSTRAINT analytics_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT analytics_events_received_at_not_null NOT NULL,
    id text CONSTRAINT analytics_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    event text CONSTRAINT analytics_events_event_not_null NOT NULL COLLATE pg_catalog."C",
    distinct_id text CONSTRAINT analytics_events_distinct_id_not_null NOT NULL COLLATE pg_catalog."C",
    properties jsonb CONSTRAINT analytics_events_properties_not_null NOT NULL,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: analytics_events_20261124; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.analytics_events_20261124 (
    project_id text CONSTRAINT analytics_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT analytics_events_received_at_not_null NOT NULL,
    id text CONSTRAINT analytics_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    event text CONSTRAINT analytics_events_event_not_null NOT NULL COLLATE pg_catalog."C",
    distinct_id text CONSTRAINT analytics_events_distinct_id_not_null NOT NULL COLLATE pg_catalog."C",
    properties jsonb CONSTRAINT analytics_events_properties_not_null NOT NULL,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: analytics_events_20261125; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.analytics_events_20261125 (
    project_id text CONSTRAINT analytics_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT analytics_events_received_at_not_null NOT NULL,
    id text CONSTRAINT analytics_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    event text CONSTRAINT analytics_events_event_not_null NOT NULL COLLATE pg_catalog."C",
    distinct_id text CONSTRAINT analytics_events_distinct_id_not_null NOT NULL COLLATE pg_catalog."C",
    properties jsonb CONSTRAINT analytics_events_properties_not_null NOT NULL,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: analytics_events_20261126; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.analytics_events_20261126 (
    project_id text CONSTRAINT analytics_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT analytics_events_received_at_not_null NOT NULL,
    id text CONSTRAINT analytics_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    event text CONSTRAINT analytics_events_event_not_null NOT NULL COLLATE pg_catalog."C",
    distinct_id text CONSTRAINT analytics_events_distinct_id_not_null NOT NULL COLLATE pg_catalog."C",
    properties jsonb CONSTRAINT analytics_events_properties_not_null NOT NULL,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: analytics_events_20261127; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.analytics_events_20261127 (
    project_id text CONSTRAINT analytics_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT analytics_events_received_at_not_null NOT NULL,
    id text CONSTRAINT analytics_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    event text CONSTRAINT analytics_events_event_not_null NOT NULL COLLATE pg_catalog."C",
    distinct_id text CONSTRAINT analytics_events_distinct_id_not_null NOT NULL COLLATE pg_catalog."C",
    properties jsonb CONSTRAINT analytics_events_properties_not_null NOT NULL,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: analytics_events_20261128; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.analytics_events_20261128 (
    project_id text CONSTRAINT analytics_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT analytics_events_received_at_not_null NOT NULL,
    id text CONSTRAINT analytics_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    event text CONSTRAINT analytics_events_event_not_null NOT NULL COLLATE pg_catalog."C",
    distinct_id text CONSTRAINT analytics_events_distinct_id_not_null NOT NULL COLLATE pg_catalog."C",
    properties jsonb CONSTRAINT analytics_events_properties_not_null NOT NULL,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: analytics_events_20261129; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.analytics_events_20261129 (
    project_id text CONSTRAINT analytics_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT analytics_events_received_at_not_null NOT NULL,
    id text CONSTRAINT analytics_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    event text CONSTRAINT analytics_events_event_not_null NOT NULL COLLATE pg_catalog."C",
    distinct_id text CONSTRAINT analytics_events_distinct_id_not_null NOT NULL COLLATE pg_catalog."C",
    properties jsonb CONSTRAINT analytics_events_properties_not_null NOT NULL,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: analytics_events_default; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.analytics_events_default (
    project_id text CONSTRAINT analytics_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT analytics_events_received_at_not_null NOT NULL,
    id text CONSTRAINT analytics_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    event text CONSTRAINT analytics_events_event_not_null NOT NULL COLLATE pg_catalog."C",
    distinct_id text CONSTRAINT analytics_events_distinct_id_not_null NOT NULL COLLATE pg_catalog."C",
    properties jsonb CONSTRAINT analytics_events_properties_not_null NOT NULL,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: api_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.api_keys (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    key_hash text NOT NULL COLLATE pg_catalog."C",
    key_prefix text NOT NULL,
    sign_in_id text COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    revoked_at bigint
);


--
-- Name: approvals; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.approvals (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    run_id text NOT NULL COLLATE pg_catalog."C",
    automation_id text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    requested_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    state jsonb NOT NULL
)
WITH (fillfactor='60');


--
-- Name: automation_contracts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.automation_contracts (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    status text NOT NULL,
    state_revision bigint NOT NULL,
    policy_version bigint NOT NULL,
    contract_sha256 text NOT NULL,
    automations jsonb NOT NULL,
    enable_receipt jsonb,
    paused_at bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    updated_by text NOT NULL
);


--
-- Name: automation_runs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.automation_runs (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    automation_id text NOT NULL COLLATE pg_catalog."C",
    runner_id text NOT NULL COLLATE pg_catalog."C",
    receipt_id text NOT NULL COLLATE pg_catalog."C",
    claim_id text COLLATE pg_catalog."C",
    case_id text COLLATE pg_catalog."C",
    phase text NOT NULL COLLATE pg_catalog."C",
    outcome text COLLATE pg_catalog."C",
    live boolean NOT NULL,
    proven_commit text COLLATE pg_catalog."C",
    started_at bigint NOT NULL,
    deadline_at bigint NOT NULL,
    state jsonb NOT NULL
)
WITH (fillfactor='60');


--
-- Name: case_stats; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.case_stats (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    title text NOT NULL,
    message text NOT NULL,
    culprit text,
    level text NOT NULL,
    environment text NOT NULL,
    release text,
    environments text[] NOT NULL,
    releases text[] NOT NULL,
    unmarked boolean NOT NULL,
    event_count bigint NOT NULL,
    users_affected bigint NOT NULL,
    first_seen_at bigint NOT NULL,
    last_seen_at bigint NOT NULL,
    sample jsonb
)
WITH (fillfactor='70');


--
-- Name: case_users; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.case_users (
    project_id text NOT NULL COLLATE pg_catalog."C",
    case_id text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    user_email text,
    error_count bigint NOT NULL,
    first_seen_at bigint NOT NULL,
    last_seen_at bigint NOT NULL
)
WITH (fillfactor='80');


--
-- Name: cases; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.cases (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    case_revision bigint NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    grouping_version bigint NOT NULL,
    suppression_id text COLLATE pg_catalog."C",
    opened_at bigint NOT NULL,
    resolved_at bigint
);


--
-- Name: checkpoints; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.checkpoints (
    name text NOT NULL,
    "position" bigint NOT NULL
);


--
-- Name: claims; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.claims (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    case_id text NOT NULL COLLATE pg_catalog."C",
    automation_id text NOT NULL COLLATE pg_catalog."C",
    runner_id text NOT NULL COLLATE pg_catalog."C",
    receipt_id text NOT NULL COLLATE pg_catalog."C",
    run_id text COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    claimed_at bigint NOT NULL,
    lease_expires_at bigint NOT NULL,
    state jsonb NOT NULL
)
WITH (fillfactor='60');


--
-- Name: credential_uses; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.credential_uses (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    last_used_at bigint NOT NULL
)
WITH (fillfactor='70');


--
-- Name: credentials; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.credentials (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    scopes jsonb NOT NULL,
    automation_id text,
    runner_id text COLLATE pg_catalog."C",
    secret_hash text NOT NULL COLLATE pg_catalog."C",
    prefix text NOT NULL,
    created_by text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    revoked_at bigint,
    revoke_reason text
);


--
-- Name: deploy_notes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.deploy_notes (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    message text NOT NULL
);


--
-- Name: deploys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.deploys (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    version text NOT NULL,
    environment text NOT NULL COLLATE pg_catalog."C",
    sha text COLLATE pg_catalog."C",
    branch text,
    source text NOT NULL,
    trusted boolean NOT NULL,
    credential_id text COLLATE pg_catalog."C",
    proof_marker_hash text COLLATE pg_catalog."C",
    proof_session_id text COLLATE pg_catalog."C",
    automation_run_id text COLLATE pg_catalog."C",
    recorded_at bigint NOT NULL
);


--
-- Name: dsn_copies; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.dsn_copies (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    dsn_hash text NOT NULL COLLATE pg_catalog."C",
    ciphertext text
);


--
-- Name: events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.events (
    project_id text NOT NULL COLLATE pg_catalog."C",
    stream_id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    topic text NOT NULL COLLATE pg_catalog."C",
    payload jsonb,
    event_id text NOT NULL,
    command_id text NOT NULL,
    actor_kind text NOT NULL,
    actor_id text NOT NULL,
    request_id text NOT NULL,
    correlation_id text NOT NULL,
    causation_id text NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    salt bytea,
    payload_hash bytea NOT NULL,
    leaf bytea NOT NULL,
    chain bytea NOT NULL,
    CONSTRAINT events_revision_check CHECK ((revision > 0))
);


--
-- Name: events_seq_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.events ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.events_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: grants; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.grants (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    run_id text NOT NULL COLLATE pg_catalog."C",
    automation_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    authorized_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    state jsonb NOT NULL
)
WITH (fillfactor='60');


--
-- Name: idempotency; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.idempotency (
    project_id text NOT NULL COLLATE pg_catalog."C",
    principal text NOT NULL COLLATE pg_catalog."C",
    operation text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    fingerprint text NOT NULL,
    command_id text NOT NULL,
    client_key boolean NOT NULL,
    status integer,
    body bytea,
    headers jsonb,
    created_at timestamp with time zone NOT NULL
);


--
-- Name: ingest_flushers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.ingest_flushers (
    id text NOT NULL COLLATE pg_catalog."C",
    batch bigint NOT NULL,
    seen_at bigint NOT NULL,
    given_up bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');


--
-- Name: installation; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.installation (
    one boolean DEFAULT true NOT NULL,
    salt text NOT NULL,
    CONSTRAINT installation_one_check CHECK (one),
    CONSTRAINT installation_salt_check CHECK ((length(salt) = 64))
);


--
-- Name: key_uses; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.key_uses (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    last_used_at bigint NOT NULL
)
WITH (fillfactor='70');


--
-- Name: leases; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.leases (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    case_id text NOT NULL COLLATE pg_catalog."C",
    receipt_id text COLLATE pg_catalog."C",
    claim_id text COLLATE pg_catalog."C",
    run_id text COLLATE pg_catalog."C",
    state jsonb NOT NULL
)
WITH (fillfactor='60');


--
-- Name: ledgers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.ledgers (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    clock bigint NOT NULL,
    runs jsonb NOT NULL,
    prs jsonb NOT NULL
)
WITH (fillfactor='60');


--
-- Name: log_events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_events (
    project_id text NOT NULL COLLATE pg_catalog."C",
    received_at bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    level text NOT NULL COLLATE pg_catalog."C",
    message text NOT NULL,
    environment text NOT NULL COLLATE pg_catalog."C",
    release text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    user_data jsonb,
    tags jsonb NOT NULL,
    extra jsonb NOT NULL,
    case_id text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    grouped_by text,
    marker_hash text COLLATE pg_catalog."C"
)
PARTITION BY RANGE (received_at);


--
-- Name: log_events_20261121; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_events_20261121 (
    project_id text CONSTRAINT log_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT log_events_received_at_not_null NOT NULL,
    id text CONSTRAINT log_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    level text CONSTRAINT log_events_level_not_null NOT NULL COLLATE pg_catalog."C",
    message text CONSTRAINT log_events_message_not_null NOT NULL,
    environment text CONSTRAINT log_events_environment_not_null NOT NULL COLLATE pg_catalog."C",
    release text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    user_data jsonb,
    tags jsonb CONSTRAINT log_events_tags_not_null NOT NULL,
    extra jsonb CONSTRAINT log_events_extra_not_null NOT NULL,
    case_id text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    grouped_by text,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: log_events_20261122; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_events_20261122 (
    project_id text CONSTRAINT log_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT log_events_received_at_not_null NOT NULL,
    id text CONSTRAINT log_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    level text CONSTRAINT log_events_level_not_null NOT NULL COLLATE pg_catalog."C",
    message text CONSTRAINT log_events_message_not_null NOT NULL,
    environment text CONSTRAINT log_events_environment_not_null NOT NULL COLLATE pg_catalog."C",
    release text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    user_data jsonb,
    tags jsonb CONSTRAINT log_events_tags_not_null NOT NULL,
    extra jsonb CONSTRAINT log_events_extra_not_null NOT NULL,
    case_id text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    grouped_by text,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: log_events_20261123; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_events_20261123 (
    project_id text CONSTRAINT log_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT log_events_received_at_not_null NOT NULL,
    id text CONSTRAINT log_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    level text CONSTRAINT log_events_level_not_null NOT NULL COLLATE pg_catalog."C",
    message text CONSTRAINT log_events_message_not_null NOT NULL,
    environment text CONSTRAINT log_events_environment_not_null NOT NULL COLLATE pg_catalog."C",
    release text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    user_data jsonb,
    tags jsonb CONSTRAINT log_events_tags_not_null NOT NULL,
    extra jsonb CONSTRAINT log_events_extra_not_null NOT NULL,
    case_id text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    grouped_by text,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: log_events_20261124; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_events_20261124 (
    project_id text CONSTRAINT log_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT log_events_received_at_not_null NOT NULL,
    id text CONSTRAINT log_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    level text CONSTRAINT log_events_level_not_null NOT NULL COLLATE pg_catalog."C",
    message text CONSTRAINT log_events_message_not_null NOT NULL,
    environment text CONSTRAINT log_events_environment_not_null NOT NULL COLLATE pg_catalog."C",
    release text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    user_data jsonb,
    tags jsonb CONSTRAINT log_events_tags_not_null NOT NULL,
    extra jsonb CONSTRAINT log_events_extra_not_null NOT NULL,
    case_id text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    grouped_by text,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: log_events_20261125; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_events_20261125 (
    project_id text CONSTRAINT log_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT log_events_received_at_not_null NOT NULL,
    id text CONSTRAINT log_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    level text CONSTRAINT log_events_level_not_null NOT NULL COLLATE pg_catalog."C",
    message text CONSTRAINT log_events_message_not_null NOT NULL,
    environment text CONSTRAINT log_events_environment_not_null NOT NULL COLLATE pg_catalog."C",
    release text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    user_data jsonb,
    tags jsonb CONSTRAINT log_events_tags_not_null NOT NULL,
    extra jsonb CONSTRAINT log_events_extra_not_null NOT NULL,
    case_id text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    grouped_by text,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: log_events_20261126; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_events_20261126 (
    project_id text CONSTRAINT log_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT log_events_received_at_not_null NOT NULL,
    id text CONSTRAINT log_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    level text CONSTRAINT log_events_level_not_null NOT NULL COLLATE pg_catalog."C",
    message text CONSTRAINT log_events_message_not_null NOT NULL,
    environment text CONSTRAINT log_events_environment_not_null NOT NULL COLLATE pg_catalog."C",
    release text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    user_data jsonb,
    tags jsonb CONSTRAINT log_events_tags_not_null NOT NULL,
    extra jsonb CONSTRAINT log_events_extra_not_null NOT NULL,
    case_id text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    grouped_by text,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: log_events_20261127; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_events_20261127 (
    project_id text CONSTRAINT log_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT log_events_received_at_not_null NOT NULL,
    id text CONSTRAINT log_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    level text CONSTRAINT log_events_level_not_null NOT NULL COLLATE pg_catalog."C",
    message text CONSTRAINT log_events_message_not_null NOT NULL,
    environment text CONSTRAINT log_events_environment_not_null NOT NULL COLLATE pg_catalog."C",
    release text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    user_data jsonb,
    tags jsonb CONSTRAINT log_events_tags_not_null NOT NULL,
    extra jsonb CONSTRAINT log_events_extra_not_null NOT NULL,
    case_id text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    grouped_by text,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: log_events_20261128; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_events_20261128 (
    project_id text CONSTRAINT log_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT log_events_received_at_not_null NOT NULL,
    id text CONSTRAINT log_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    level text CONSTRAINT log_events_level_not_null NOT NULL COLLATE pg_catalog."C",
    message text CONSTRAINT log_events_message_not_null NOT NULL,
    environment text CONSTRAINT log_events_environment_not_null NOT NULL COLLATE pg_catalog."C",
    release text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    user_data jsonb,
    tags jsonb CONSTRAINT log_events_tags_not_null NOT NULL,
    extra jsonb CONSTRAINT log_events_extra_not_null NOT NULL,
    case_id text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    grouped_by text,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: log_events_20261129; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_events_20261129 (
    project_id text CONSTRAINT log_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT log_events_received_at_not_null NOT NULL,
    id text CONSTRAINT log_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    level text CONSTRAINT log_events_level_not_null NOT NULL COLLATE pg_catalog."C",
    message text CONSTRAINT log_events_message_not_null NOT NULL,
    environment text CONSTRAINT log_events_environment_not_null NOT NULL COLLATE pg_catalog."C",
    release text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    user_data jsonb,
    tags jsonb CONSTRAINT log_events_tags_not_null NOT NULL,
    extra jsonb CONSTRAINT log_events_extra_not_null NOT NULL,
    case_id text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    grouped_by text,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: log_events_default; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_events_default (
    project_id text CONSTRAINT log_events_project_id_not_null NOT NULL COLLATE pg_catalog."C",
    received_at bigint CONSTRAINT log_events_received_at_not_null NOT NULL,
    id text CONSTRAINT log_events_id_not_null NOT NULL COLLATE pg_catalog."C",
    level text CONSTRAINT log_events_level_not_null NOT NULL COLLATE pg_catalog."C",
    message text CONSTRAINT log_events_message_not_null NOT NULL,
    environment text CONSTRAINT log_events_environment_not_null NOT NULL COLLATE pg_catalog."C",
    release text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    user_data jsonb,
    tags jsonb CONSTRAINT log_events_tags_not_null NOT NULL,
    extra jsonb CONSTRAINT log_events_extra_not_null NOT NULL,
    case_id text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C",
    grouped_by text,
    marker_hash text COLLATE pg_catalog."C"
);


--
-- Name: log_index; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_index (
    "position" bigint NOT NULL,
    seq bigint NOT NULL
);


--
-- Name: log_state; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.log_state (
    one boolean DEFAULT true NOT NULL,
    size bigint NOT NULL,
    CONSTRAINT log_state_one_check CHECK (one)
);


--
-- Name: memberships; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.memberships (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    user_id text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL,
    created_at bigint NOT NULL
);


--
-- Name: onboarding; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.onboarding (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    status text NOT NULL,
    state_revision bigint NOT NULL,
    plan jsonb NOT NULL,
    plan_sha256 text NOT NULL,
    updated_at bigint NOT NULL,
    approved_at bigint,
    proof_session_id text COLLATE pg_catalog."C",
    implementation_source_snapshot jsonb,
    runtime_marker_sha256 text COLLATE pg_catalog."C",
    ci_marker_sha256 text COLLATE pg_catalog."C",
    started_at bigint,
    expires_at bigint,
    receipt jsonb
);


--
-- Name: people; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.people (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    provider text NOT NULL,
    email text NOT NULL,
    email_verified boolean NOT NULL,
    name text,
    synthetic boolean NOT NULL,
    status text NOT NULL,
    created_at bigint NOT NULL,
    fenced_at bigint
);


--
-- Name: procrastinate_events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.procrastinate_events (
    id bigint NOT NULL,
    job_id bigint NOT NULL,
    type public.procrastinate_job_event_type,
    at timestamp with time zone DEFAULT now()
);


--
-- Name: procrastinate_events_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.procrastinate_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: procrastinate_events_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.procrastinate_events_id_seq OWNED BY public.procrastinate_events.id;


--
-- Name: procrastinate_jobs_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.procrastinate_jobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: procrastinate_jobs_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.procrastinate_jobs_id_seq OWNED BY public.procrastinate_jobs.id;


--
-- Name: procrastinate_periodic_defers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.procrastinate_periodic_defers (
    id bigint NOT NULL,
    task_name character varying(128) NOT NULL,
    defer_timestamp bigint,
    job_id bigint,
    periodic_id character varying(128) DEFAULT ''::character varying NOT NULL
);


--
-- Name: procrastinate_periodic_defers_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.procrastinate_periodic_defers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: procrastinate_periodic_defers_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.procrastinate_periodic_defers_id_seq OWNED BY public.procrastinate_periodic_defers.id;


--
-- Name: procrastinate_workers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.procrastinate_workers (
    id bigint NOT NULL,
    last_heartbeat timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: procrastinate_workers_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.procrastinate_workers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.procrastinate_workers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: projects; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.projects (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    name text NOT NULL,
    created_by text NOT NULL COLLATE pg_catalog."C",
    synthetic boolean NOT NULL,
    status text NOT NULL,
    dsn_hash text NOT NULL COLLATE pg_catalog."C",
    dsn_prefix text NOT NULL,
    created_at bigint NOT NULL,
    fenced_at bigint
);


--
-- Name: provider_connections; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.provider_connections (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    status text NOT NULL,
    host text NOT NULL,
    provider_project_id bigint,
    scopes jsonb NOT NULL,
    started_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    connected_at bigint,
    reason text
);


--
-- Name: provider_grants; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.provider_grants (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    generation bigint NOT NULL,
    sealed text
);


--
-- Name: rebuilds; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.rebuilds (
    name text NOT NULL,
    "position" bigint NOT NULL,
    project_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    stream_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    rows bigint DEFAULT 0 NOT NULL,
    events bigint DEFAULT 0 NOT NULL,
    digest text DEFAULT '0'::text NOT NULL,
    started_at bigint NOT NULL,
    fingerprint text DEFAULT ''::text NOT NULL
);


--
-- Name: schema_migrations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.schema_migrations (
    name text NOT NULL,
    checksum text NOT NULL,
    detail text DEFAULT ''::text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);


--
-- Name: service_clock; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.service_clock (
    one boolean DEFAULT true NOT NULL,
    offset_seconds bigint DEFAULT 0 NOT NULL,
    CONSTRAINT service_clock_offset_seconds_check CHECK ((offset_seconds >= 0)),
    CONSTRAINT service_clock_one_check CHECK (one)
);


--
-- Name: sign_in_polls; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sign_in_polls (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    device_code_hash text NOT NULL COLLATE pg_catalog."C",
    last_polled_at bigint NOT NULL,
    interval_seconds bigint NOT NULL
)
WITH (fillfactor='70');


--
-- Name: sign_ins; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sign_ins (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    device_code_hash text NOT NULL COLLATE pg_catalog."C",
    client_name text,
    status text NOT NULL,
    started_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    user_id text COLLATE pg_catalog."C",
    is_new boolean NOT NULL
);


--
-- Name: signal_maps; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.signal_maps (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    plan jsonb NOT NULL,
    plan_sha256 text NOT NULL,
    recorded_at bigint NOT NULL,
    receipt jsonb
);


--
-- Name: snapshots; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.snapshots (
    project_id text NOT NULL COLLATE pg_catalog."C",
    stream_id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    version integer NOT NULL,
    state jsonb NOT NULL
)
WITH (fillfactor='70');


--
-- Name: stream_heads; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.stream_heads (
    project_id text NOT NULL COLLATE pg_catalog."C",
    stream_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    chain bytea NOT NULL,
    CONSTRAINT stream_heads_revision_check CHECK ((revision > 0))
)
WITH (fillfactor='70');


--
-- Name: suppressions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.suppressions (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    rules jsonb NOT NULL
);


--
-- Name: trigger_evidence; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.trigger_evidence (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    title text NOT NULL
);


--
-- Name: trigger_receipts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.trigger_receipts (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    automation_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    case_id text COLLATE pg_catalog."C",
    claim_id text COLLATE pg_catalog."C",
    run_id text COLLATE pg_catalog."C",
    issued_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    state jsonb NOT NULL
)
WITH (fillfactor='60');


--
-- Name: unsequenced; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.unsequenced (
    seq bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000');


--
-- Name: usage_days; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.usage_days (
    project_id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL COLLATE pg_catalog."C",
    day bigint NOT NULL,
    errors bigint NOT NULL,
    analytics bigint NOT NULL,
    suppressed bigint NOT NULL,
    scrubbed bigint NOT NULL,
    last_received_at bigint NOT NULL
)
WITH (fillfactor='50');


--
-- Name: usage_deploys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.usage_deploys (
    project_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL COLLATE pg_catalog."C",
    day bigint NOT NULL,
    scrubbed bigint NOT NULL
);


--
-- Name: analytics_events_20261121; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events ATTACH PARTITION public.analytics_events_20261121 FOR VALUES FROM ('1795219200') TO ('1795305600');


--
-- Name: analytics_events_20261122; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events ATTACH PARTITION public.analytics_events_20261122 FOR VALUES FROM ('1795305600') TO ('1795392000');


--
-- Name: analytics_events_20261123; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events ATTACH PARTITION public.analytics_events_20261123 FOR VALUES FROM ('1795392000') TO ('1795478400');


--
-- Name: analytics_events_20261124; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events ATTACH PARTITION public.analytics_events_20261124 FOR VALUES FROM ('1795478400') TO ('1795564800');


--
-- Name: analytics_events_20261125; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events ATTACH PARTITION public.analytics_events_20261125 FOR VALUES FROM ('1795564800') TO ('1795651200');


--
-- Name: analytics_events_20261126; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events ATTACH PARTITION public.analytics_events_20261126 FOR VALUES FROM ('1795651200') TO ('1795737600');


--
-- Name: analytics_events_20261127; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events ATTACH PARTITION public.analytics_events_20261127 FOR VALUES FROM ('1795737600') TO ('1795824000');


--
-- Name: analytics_events_20261128; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events ATTACH PARTITION public.analytics_events_20261128 FOR VALUES FROM ('1795824000') TO ('1795910400');


--
-- Name: analytics_events_20261129; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events ATTACH PARTITION public.analytics_events_20261129 FOR VALUES FROM ('1795910400') TO ('1795996800');


--
-- Name: analytics_events_default; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events ATTACH PARTITION public.analytics_events_default DEFAULT;


--
-- Name: log_events_20261121; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events ATTACH PARTITION public.log_events_20261121 FOR VALUES FROM ('1795219200') TO ('1795305600');


--
-- Name: log_events_20261122; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events ATTACH PARTITION public.log_events_20261122 FOR VALUES FROM ('1795305600') TO ('1795392000');


--
-- Name: log_events_20261123; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events ATTACH PARTITION public.log_events_20261123 FOR VALUES FROM ('1795392000') TO ('1795478400');


--
-- Name: log_events_20261124; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events ATTACH PARTITION public.log_events_20261124 FOR VALUES FROM ('1795478400') TO ('1795564800');


--
-- Name: log_events_20261125; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events ATTACH PARTITION public.log_events_20261125 FOR VALUES FROM ('1795564800') TO ('1795651200');


--
-- Name: log_events_20261126; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events ATTACH PARTITION public.log_events_20261126 FOR VALUES FROM ('1795651200') TO ('1795737600');


--
-- Name: log_events_20261127; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events ATTACH PARTITION public.log_events_20261127 FOR VALUES FROM ('1795737600') TO ('1795824000');


--
-- Name: log_events_20261128; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events ATTACH PARTITION public.log_events_20261128 FOR VALUES FROM ('1795824000') TO ('1795910400');


--
-- Name: log_events_20261129; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events ATTACH PARTITION public.log_events_20261129 FOR VALUES FROM ('1795910400') TO ('1795996800');


--
-- Name: log_events_default; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events ATTACH PARTITION public.log_events_default DEFAULT;


--
-- Name: procrastinate_events id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.procrastinate_events ALTER COLUMN id SET DEFAULT nextval('public.procrastinate_events_id_seq'::regclass);


--
-- Name: procrastinate_jobs id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.procrastinate_jobs ALTER COLUMN id SET DEFAULT nextval('public.procrastinate_jobs_id_seq'::regclass);


--
-- Name: procrastinate_periodic_defers id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.procrastinate_periodic_defers ALTER COLUMN id SET DEFAULT nextval('public.procrastinate_periodic_defers_id_seq'::regclass);


--
-- Data for Name: analytics_events_20261121; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: analytics_events_20261122; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: analytics_events_20261123; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: analytics_events_20261124; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: analytics_events_20261125; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: analytics_events_20261126; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: analytics_events_20261127; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: analytics_events_20261128; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: analytics_events_20261129; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: analytics_events_default; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.analytics_events_default VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 2741416581, 'evt_01m816ccrp27vx6fqjy3w8gkxf', 'paid', 'first', '{"amount": 12, "service_onboarding_proof": "sha256:c6a6d619536ed0bb7f7f80201aa4d079e63c62fe48b034212e430eb4ce15be41"}', 'c6a6d619536ed0bb7f7f80201aa4d079e63c62fe48b034212e430eb4ce15be41');


--
-- Data for Name: api_keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.api_keys VALUES
	('usr_73x4czd4ej43v1chxv2pj31wcw', 'key_01m816ccmy2ssdghayk5pe1x6g', 1, 'b4c42653cd21e608be338c7579993be4d363c6830edc460ab2a2789ac85659a2', 'service_sk_sEvDK', 'dev_7z80q9batgnzb7kz8ycgfrw87w', 2741416581, NULL);


--
-- Data for Name: approvals; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: automation_contracts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.automation_contracts VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'ctr_5faeg4tq4kaangxd94qxvwnm3x', 2, 'enabled', 2, 2, 'c7dd56f93e4db4e02270252000cd9821aa2ffe5e98b95457756667864e48dc81', '[{"saved": {"policy": "{\"allowed_actions\":[\"draft_pr\",\"escalate\"],\"automation_id\":\"heal\",\"budgets\":{\"max_attempts_per_case_revision\":20,\"max_cost_usd_per_run\":25,\"max_prs_per_day\":100,\"max_runs_per_day\":1000,\"max_runtime_seconds\":3600,\"max_turns_per_run\":500},\"code_delivery\":{\"mode\":\"review_required\"},\"data_boundary\":{\"telemetry_instruction_authority\":\"none\"},\"enabled\":false,\"escalation\":{\"destination\":\"#on-call\",\"instructions\":\"Say what was tried.\"},\"execution\":{\"provider\":\"coding_agent_a\"},\"forbidden_actions\":[\"direct_merge\",\"force_merge\",\"merge_bypass\",\"deploy\",\"rollback\",\"direct_push\"],\"name\":\"Heal the shop\",\"playbook_id\":\"error-to-draft-pr\",\"playbook_version\":\"4.0.0\",\"required_trust\":\"customer_provider\",\"runner\":{\"default_branch\":\"main\",\"provider\":\"coding_agent_a\",\"repository\":\"https://code.example/acme/shop\"},\"runner_mode\":\"draft_only\",\"scope\":{\"allowed_paths\":[\"src/\"],\"max_changed_lines\":400,\"max_files_changed\":10,\"test_commands\":[\"make test\"]},\"trigger\":{\"cooldown_seconds\":60,\"kind\":\"unhandled_cases\",\"materiality\":{\"maximum_last_seen_age_seconds\":86400,\"minimum_event_count\":1},\"max_cases_per_sweep\":100},\"verification\":{\"blueprint_id\":\"deploy-recurrence\",\"max_wait_seconds\":86400,\"min_sample_size\":1,\"observation_window_seconds\":60,\"traffic_sample_event\":\"paid\"},\"workflow\":null}", "bindings": "{\"automation_id\":\"heal\",\"budgets\":{\"max_attempts_per_case_revision\":20,\"max_cost_usd_per_run\":25,\"max_prs_per_day\":100,\"max_runs_per_day\":1000,\"max_runtime_seconds\":3600,\"max_turns_per_run\":500},\"escalation\":{\"destination\":\"#on-call\",\"instructions\":\"Say what was tried.\"},\"execution\":{\"provider\":\"coding_agent_a\"},\"name\":\"Heal the shop\",\"runner\":{\"default_branch\":\"main\",\"provider\":\"coding_agent_a\",\"repository\":\"https://code.example/acme/shop\"},\"scope\":{\"allowed_paths\":[\"src/\"],\"max_changed_lines\":400,\"max_files_changed\":10,\"test_commands\":[\"make test\"]},\"traffic_sample_event\":\"paid\",\"trigger\":{\"cooldown_seconds\":60,\"materiality\":{\"maximum_last_seen_age_seconds\":86400,\"minimum_event_count\":1},\"max_cases_per_sweep\":100},\"verification\":{\"max_wait_seconds\":86400,\"min_sample_size\":1,\"observation_window_seconds\":60}}", "playbook_id": "error-to-draft-pr", "automation_id": "heal", "policy_sha256": "edd3b6da41c5970be1bcf682692935525b22ca7548a03fd846408a783daa168e", "template_hash": "e6462254fc86ab6ff56b0580daf7a0454cb78dd41e9b16304b9f50f875b19b29", "playbook_version": "4.0.0", "readiness_assertions": "{\"ci_proof_callback_configured\":true,\"deploy_ingest_configured\":true,\"repository_pull_request_access_confirmed\":true}"}, "enabled": true, "enabled_at": 2741416582, "generation": 2, "disabled_at": null, "withdrawn_at": 2741416582, "disabled_reason": null}]', '{"etag": "\"ac:ctr_5faeg4tq4kaangxd94qxvwnm3x:2\"", "enabled_at": 2741416582, "enabled_by": "usr_73x4czd4ej43v1chxv2pj31wcw", "receipt_id": "enr_01m816cczkhj9xvfkft1n1a94b", "contract_id": "ctr_5faeg4tq4kaangxd94qxvwnm3x", "previous_etag": "\"ac:ctr_5faeg4tq4kaangxd94qxvwnm3x:1\"", "automation_ids": ["heal"], "contract_sha256": "c7dd56f93e4db4e02270252000cd9821aa2ffe5e98b95457756667864e48dc81", "contract_revision": 2}', NULL, 2741416582, 2741416582, 'usr_73x4czd4ej43v1chxv2pj31wcw');


--
-- Data for Name: automation_runs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.automation_runs VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'run_33wp7waghkhzwcmara3jpxva9y', 2, 'heal', 'runner_01m816ccwsgre7jvtn1zq2th21', 'trc_7mcvq9t5ebhgnmp4549z3hjhmf', 'claim_3rc61rpvp8mp9tkdk9yd6edz2h', 'case_01npny24xjfzkjtgj6zzptxa0e', 'running', NULL, true, NULL, 2741416582, 2741420182, '{"cause": null, "terms": {"limits": {"max_prs_per_day": 100, "max_runs_per_day": 1000, "max_turns_per_run": 500, "max_runtime_seconds": 3600, "max_cost_usd_per_run": "25", "max_attempts_per_case_revision": 20}, "delivery": {"mode": "review_required", "merge_method": null, "required_status_checks": []}, "playbook": {"id": "error-to-draft-pr", "version": "4.0.0", "template_hash": "e6462254fc86ab6ff56b0580daf7a0454cb78dd41e9b16304b9f50f875b19b29"}, "repository": "https://code.example/acme/shop", "base_branch": "main", "environment": null, "verification": {"min_sample_size": 1, "max_wait_seconds": 86400, "traffic_sample_event": "paid", "observation_window_seconds": 60}}, "deploy": null, "grants": [], "proofs": [], "reason": null, "status": "running/null", "case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "charges": {"turns": 0, "cost_usd": "0", "runtime_seconds": 0}, "verdict": null, "claim_id": "claim_3rc61rpvp8mp9tkdk9yd6edz2h", "approvals": [], "runner_id": "runner_01m816ccwsgre7jvtn1zq2th21", "follow_ups": [], "receipt_id": "trc_7mcvq9t5ebhgnmp4549z3hjhmf", "started_at": 2741416582, "summary_md": null, "updated_at": 2741416582, "deadline_at": 2741420182, "finished_at": null, "lease_epoch": 1, "pull_request": null, "verify_until": null, "automation_id": "heal", "case_revision": 1, "policy_sha256": "edd3b6da41c5970be1bcf682692935525b22ca7548a03fd846408a783daa168e", "state_revision": 2, "command_key_sha256": null}');


--
-- Data for Name: case_stats; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.case_stats VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'case_6y0ckx7e6pay4pjcqpjx72crqq', 'Declined.', 'Declined.', NULL, 'error', 'production', NULL, '{production}', '{}', false, 1, 0, 2741416581, 2741416581, NULL),
	('proj_01m816ccnczenbbnc2bb42180s', 'case_01npny24xjfzkjtgj6zzptxa0e', 'Lost: The order was lost.', 'The order was lost.', 'app.py:pay', 'error', 'production', NULL, '{production}', '{}', true, 1, 0, 2741416582, 2741416582, NULL),
	('proj_01m816ccnczenbbnc2bb42180s', 'case_7efxtwzwdhhexjmkq2v404kvyr', 'Declined: The order was lost.', 'The order was lost.', 'app.py:pay', 'error', 'production', NULL, '{production}', '{}', true, 1, 0, 2741416582, 2741416582, NULL);


--
-- Data for Name: case_users; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: cases; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.cases VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'case_6y0ckx7e6pay4pjcqpjx72crqq', 1, 1, 'open', '808c1d4029649048872b2b7fbdd9874e', 1, NULL, 2741416581, NULL),
	('proj_01m816ccnczenbbnc2bb42180s', 'case_01npny24xjfzkjtgj6zzptxa0e', 1, 1, 'open', '89065821b8004bdfc304c252cfbd1ce6', 1, NULL, 2741416582, NULL),
	('proj_01m816ccnczenbbnc2bb42180s', 'case_7efxtwzwdhhexjmkq2v404kvyr', 1, 1, 'open', '4990c9ce0fb036d67f34c854b1c1dc12', 1, NULL, 2741416582, NULL);


--
-- Data for Name: checkpoints; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.checkpoints VALUES
	('reactor', 31);


--
-- Data for Name: claims; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.claims VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'claim_3rc61rpvp8mp9tkdk9yd6edz2h', 2, 'case_01npny24xjfzkjtgj6zzptxa0e', 'heal', 'runner_01m816ccwsgre7jvtn1zq2th21', 'trc_7mcvq9t5ebhgnmp4549z3hjhmf', 'run_33wp7waghkhzwcmara3jpxva9y', 'active', 2741416582, 2741417482, '{"reason": null, "run_id": "run_33wp7waghkhzwcmara3jpxva9y", "status": "active", "case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "ended_at": null, "runner_id": "runner_01m816ccwsgre7jvtn1zq2th21", "claimed_at": 2741416582, "receipt_id": "trc_7mcvq9t5ebhgnmp4549z3hjhmf", "renewed_at": null, "deadline_at": 2741420182, "lease_epoch": 1, "released_at": null, "automation_id": "heal", "case_revision": 1, "lease_expires_at": 2741417482}');


--
-- Data for Name: credential_uses; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.credential_uses VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 2741416582),
	('proj_01m816ccnczenbbnc2bb42180s', 'cred_2jw6ebw3wqtdnxretz1yk9zyb1', 2741416582);


--
-- Data for Name: credentials; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.credentials VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'cred_2jw6ebw3wqtdnxretz1yk9zyb1', 1, 'ci_deploy', 'ci_deploy', '["deploys:write", "automation_proofs:write"]', NULL, NULL, 'f24762b47c0da583ad46176fa98755cfce1f72c0709735b2374135959f3cceeb', 'service_ci_TLnub', 'usr_73x4czd4ej43v1chxv2pj31wcw', 2741416581, 2749192581, NULL, NULL),
	('proj_01m816ccnczenbbnc2bb42180s', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 1, 'automation_runner', 'automation_runner', '["cases:read", "triggers:read", "triggers:issue", "claims:write", "runs:read", "runs:write", "approvals:request"]', 'heal', 'runner_01m816ccwsgre7jvtn1zq2th21', '57c0aa065c44fe3dde200ceaaf32826d22c3bdf0cec8f8968d423ba41f18b771', 'service_runner_w', 'usr_73x4czd4ej43v1chxv2pj31wcw', 2741416582, 2749192582, NULL, NULL);


--
-- Data for Name: deploy_notes; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: deploys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.deploys VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'dep_01m816cctyakx5sy7a5hp9nxtb', 1, '1.0.0', 'production', 'dddddddddddddddddddddddddddddddddddddddd', NULL, 'ci', true, 'cred_2jw6ebw3wqtdnxretz1yk9zyb1', 'a1e21e35361792dc0530725f5c6a559fe7a86813021b2c0de826c0276164bd05', 'ps_01m816ccr5eckj2nvwqghb7x6w', NULL, 2741416581);


--
-- Data for Name: dsn_copies; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.dsn_copies VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'proj_01m816ccnczenbbnc2bb42180s', '00b01c3e11e7c71bb1481e80b147c488d524c0d83559425e82c97f79d27e087f', 'V+GdV2BdOtCoWrUIsTaXTfweBpZuo5syGGElevzIuU+YeSLQS1gjt8lcF8r6+eSh73DBM0wVoa+NzwiWdeu36sqWcv1xAdGdCzcqL+qoJeMeI6A='),
	('proj_01m816cdg5sjjfkg487mwb75zy', 'proj_01m816cdg5sjjfkg487mwb75zy', 'cbb338b672817742bc847b511fb56c330629746a0b819e5379c52511dff9a639', '/9F9yEOzvFazgo0e/DcDJm4n2naE744+muWHjPq01iOLfWIycgaGiyMV8DPXPexBjkfZ0cYvkXpjHZf0nMkOiNRgNBKR51im00bjKB071fuWmns=');


--
-- Data for Name: events; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.events OVERRIDING SYSTEM VALUE VALUES
	('dev_7z80q9batgnzb7kz8ycgfrw87w', 'dev_7z80q9batgnzb7kz8ycgfrw87w', 1, 1, 'dev', 'sign_in.started.v1', '{"expires_at": 2741417481, "started_at": 2741416581, "client_name": null, "device_code_hash": "a150fc5860a63266f6b4c26a6e91e22aa3e6a4d3d3e1c722ebb6c879f880896b"}', 'event_01m816cckygmxk3th2em91vtsd', 'cmd_01m816ccjs1nxzzp436282pc28', 'anonymous', 'anonymous', 'req_01m816ccjphx1d4ffva7nvn6ft', 'req_01m816ccjphx1d4ffva7nvn6ft', '', '2056-11-14 08:36:21.75779+00', '\x2110f302b46deca65f921cd573e3b07c', '\x826adace9dba639e7bf29a62d84b5f5df4d9fff84e80b05fcfe8314390f947d1', '\x45537805621bd0402a62425d10e63a800ee51bccc34769f09270fdac374cf0e9', '\xbdf676c1d9e49f51b58f36086814bb4b61a867f4f85535fd9a6d1ec16f5b9b27'),
	('usr_73x4czd4ej43v1chxv2pj31wcw', 'usr_73x4czd4ej43v1chxv2pj31wcw', 1, 2, 'usr', 'person.registered.v1', '{"name": null, "email": "bench@example.invalid", "provider": "bench", "synthetic": false, "registered_at": 2741416581, "email_verified": false}', 'event_01m816ccmkv4e3wgtp27k67f7y', 'cmd_01m816ccmc8gqmhrp3d4rnadsj', 'internal', 'internal', 'req_01m816ccmahm9eb0vgafysaga0', 'req_01m816ccmahm9eb0vgafysaga0', '', '2056-11-14 08:36:21.77903+00', '\x4e88daafd095f6fbe006aeae25861e53', '\x9f987bdcbc0fe44a955919e6a5378c1c2436d0db12fbaf01e490b333924dda7d', '\x6b0f0c6357988e18b2c5977d9f6c1de5a4db166724672876cc2a3f45daac423e', '\x81ddb09cab9bc23ff3a041ccd7ec7d02d23760d6ae97032616126fad3dd373a3'),
	('dev_7z80q9batgnzb7kz8ycgfrw87w', 'dev_7z80q9batgnzb7kz8ycgfrw87w', 2, 3, 'dev', 'sign_in.authorized.v1', '{"is_new": true, "user_id": "usr_73x4czd4ej43v1chxv2pj31wcw", "authorized_at": 2741416581}', 'event_01m816ccmkvnan2yfhd9p5ak0t', 'cmd_01m816ccmc8gqmhrp3d4rnadsj', 'internal', 'internal', 'req_01m816ccmahm9eb0vgafysaga0', 'req_01m816ccmahm9eb0vgafysaga0', '', '2056-11-14 08:36:21.77903+00', '\x209e0ec576ed9b17cd2d8492224bfe7c', '\xd6577bf0ab7b444c43b12378684ce5fa7f353faa47e578d1d5a5456a2e0b9cf8', '\x8d3c592486386045c0bc4ac966bc838a60817abe0007a661ee409292645be502', '\xcc6f540ece207c238991cd3990f48a75d2dff6361a9c3af8427651b9196710e9'),
	('dev_7z80q9batgnzb7kz8ycgfrw87w', 'dev_7z80q9batgnzb7kz8ycgfrw87w', 3, 4, 'dev', 'sign_in.redeemed.v1', '{"key_id": "key_01m816ccmy2ssdghayk5pe1x6g", "redeemed_at": 2741416581}', 'event_01m816ccn3evs8ysrztd8pcw6a', 'cmd_01m816ccmycxmt5p40pv9ahes1', 'anonymous', 'anonymous', 'req_01m816ccmty9mpbmsavt9f0dy8', 'req_01m816ccmty9mpbmsavt9f0dy8', '', '2056-11-14 08:36:21.79477+00', '\x9191f2c6d8ed33c1c9da34049429dd28', '\x7a2ff555648028e34c783e6a6f5e88d715a730d5a04b69624d4da06cfcbfe442', '\xe55f28f9280928f960c5d0c6fc19209046fecce4a1fbde7f87bf8a0830307099', '\xc859e0497ca0dc6f743101f7ccb6fbc17da3bc633870865f528ac39912e29e67'),
	('usr_73x4czd4ej43v1chxv2pj31wcw', 'key_01m816ccmy2ssdghayk5pe1x6g', 1, 5, 'key', 'key.minted.v1', '{"user_id": "usr_73x4czd4ej43v1chxv2pj31wcw", "key_hash": "b4c42653cd21e608be338c7579993be4d363c6830edc460ab2a2789ac85659a2", "minted_at": 2741416581, "key_prefix": "service_sk_sEvDK", "sign_in_id": "dev_7z80q9batgnzb7kz8ycgfrw87w"}', 'event_01m816ccn3m3sdrxfzpekbqkb6', 'cmd_01m816ccmycxmt5p40pv9ahes1', 'anonymous', 'anonymous', 'req_01m816ccmty9mpbmsavt9f0dy8', 'req_01m816ccmty9mpbmsavt9f0dy8', '', '2056-11-14 08:36:21.79477+00', '\x8fcfca27fd8b977bb37e1567df7603a9', '\x197bc51fbf43fb7f61aa9ac28c57324f7bc1e0f25ca83d525d7f1e742227954f', '\xe729b527e7afb646217974c384074c95cb4dffe1a9edeb4231789f99accc3947', '\x436f4860f9784b78e544b805d6b6b9f6474961ef038187e1b353195c756fb914'),
	('proj_01m816ccnczenbbnc2bb42180s', 'proj_01m816ccnczenbbnc2bb42180s', 1, 6, 'proj', 'project.created.v1', '{"name": "shop", "dsn_hash": "00b01c3e11e7c71bb1481e80b147c488d524c0d83559425e82c97f79d27e087f", "synthetic": false, "created_at": 2741416581, "created_by": "usr_73x4czd4ej43v1chxv2pj31wcw", "dsn_prefix": "service_dsn_aWjMrD6k"}', 'event_01m816ccnt9hv3g3a0w91nb6m6', 'cmd_01m816ccnf5d1b85n7pf1henw7', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816ccn80n2wh5wgt4pe14jb', 'req_01m816ccn80n2wh5wgt4pe14jb', '', '2056-11-14 08:36:21.81672+00', '\xbeb8bec5805bb2c8a3cf262d1be252b9', '\x418c8a3bdab9f06179ab46afdb9cc89b4d74bf2181ea976c7627b7c38c0829ab', '\xef060da87cb61efb6e80078220cd8ea1a5cafd6acef11606cb8ebf5194a2c8ee', '\xde8b98bc1eb8f4e1f7cc11e0afc0489c449d9b55e27fd8d02ecb15f31a1000dd'),
	('proj_01m816ccnczenbbnc2bb42180s', 'mem_0z7408nzy0bdvcrq75t1j6jbwy', 1, 7, 'mem', 'membership.owner_added.v1', '{"user_id": "usr_73x4czd4ej43v1chxv2pj31wcw", "added_at": 2741416581}', 'event_01m816ccntfy0zrgxqyn1a3fnk', 'cmd_01m816ccnf5d1b85n7pf1henw7', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816ccn80n2wh5wgt4pe14jb', 'req_01m816ccn80n2wh5wgt4pe14jb', '', '2056-11-14 08:36:21.81672+00', '\xf59c01ee9c6b3d1cdb3461eedd2356b5', '\x512526fe0e4a0cc576309cfdfdc5d9ab7d860ac3bd811054fb276a410a46d2d1', '\xb3cdd17fb9c9e5cd5b9e165fc057f920bef0bd9799e45b35c07905945af88d6e', '\xee4af4ca0d56d584ea76a73a78c92048673ab8866f2c1f33cfa045d5bc0c7e1e'),
	('proj_01m816ccnczenbbnc2bb42180s', 'cred_2jw6ebw3wqtdnxretz1yk9zyb1', 1, 8, 'cred', 'credential.created.v1', '{"kind": "ci_deploy", "name": "ci_deploy", "prefix": "service_ci_TLnub", "scopes": ["deploys:write", "automation_proofs:write"], "request": "4dc69dfb53b646921f9a7c41dc464e7082eed485fecaed7a02ecda3c12ff8927", "runner_id": null, "created_at": 2741416581, "created_by": "usr_73x4czd4ej43v1chxv2pj31wcw", "expires_at": 2749192581, "secret_hash": "f24762b47c0da583ad46176fa98755cfce1f72c0709735b2374135959f3cceeb", "automation_id": null}', 'event_01m816ccptdzjwsxy13ghcd322', 'cmd_01m816ccpjm8vg200whagsrk7a', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816ccpbnt1x8hd4hcd3gp14', 'req_01m816ccpbnt1x8hd4hcd3gp14', '', '2056-11-14 08:36:21.849765+00', '\x20fe0379bd1dc37d9cccaf5cd30cbc49', '\x313d662d73d375082b445530f378706b4944fef780b4f9d5d6d8e5f40010578c', '\x84a25d6545f99e62ea860a30286bc7c695e8d13e03603182c6cefeb4512f8ffa', '\x5102d340a6b0293aa341b66f3aa0f3d5e58df9a1d3a036000562c7fd52d5e9e0'),
	('proj_01m816ccnczenbbnc2bb42180s', 'onb_5faeg4tq4kaangxd94qxvwnm3x', 1, 9, 'onb', 'onboarding.planned.v1', '{"plan": {"deploy": {"targets": [{"file": "app.py", "anchor": "def main():"}], "sha_source": "git_head", "environment": "production"}, "failures": [{"marker": "declined", "context": ["step"], "meaning": "It did not.", "targets": [{"file": "app.py", "anchor": "def main():"}], "safe_live_proof": true, "provider_boundary": "server_provider"}], "milestones": [{"event": "paid", "meaning": "Money moved.", "targets": [{"file": "app.py", "anchor": "def main():"}], "properties": ["amount"], "provider_boundary": "server_provider"}], "plan_markdown": "A person enters, pays, and is served.", "source_snapshot": {"git_head_sha": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "source_fingerprint_sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "source_fingerprint_algorithm": "service-source-tree-sha256-v1"}, "business_question": "Who pays proj_01m816ccnczenbbnc2bb42180s?", "historical_evidence": null}, "planned_at": 2741416581, "plan_sha256": "1054fc95dd1ae98c44f39d9cafd6b524276b7b120b0cce8b33c786781130bbaf", "onboarding_id": "onb_5faeg4tq4kaangxd94qxvwnm3x"}', 'event_01m816ccqg380tcbrvvfcre67r', 'cmd_01m816ccqbmeyzakrrxjksdbyn', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816ccq9bewqp84fvqmdzxqd', 'req_01m816ccq9bewqp84fvqmdzxqd', '', '2056-11-14 08:36:21.871728+00', '\x67c0fb0e60e36c95d088272a61d99f33', '\x0f8dc844cbf46dc837a6b8af2f37adc0b260a7d0d2b784fcdc25cbe07c7d5e86', '\x887257d196bab927db214995671933882a86c4b5a73ab235159dd575e52a0d78', '\x0948e191cb1667d99de6e089e954b74fb170b80d80cff506407dc33fd7a327d5'),
	('proj_01m816ccnczenbbnc2bb42180s', 'onb_5faeg4tq4kaangxd94qxvwnm3x', 2, 10, 'onb', 'onboarding.approved.v1', '{"approved_at": 2741416581, "plan_sha256": "1054fc95dd1ae98c44f39d9cafd6b524276b7b120b0cce8b33c786781130bbaf"}', 'event_01m816ccqwzbd7qzt6bt47pzcb', 'cmd_01m816ccqtt0b78q4ffwp4pzzm', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816ccqs41v100cwx4n6tt32', 'req_01m816ccqs41v100cwx4n6tt32', '', '2056-11-14 08:36:21.88443+00', '\xa1d88ee253f4e39854c879239cc2d57d', '\x2e9996b18521489e6dcf0a9db4cf8b33865ca8b5072144311ca0900756bee848', '\x0e3f95b8a861400d347308a01dc7f20f06e777638d2b42b1a00dc6589c4b6b49', '\x6c0210ecbc55e131aac19a8269b7882043d8ff9a2246168dbaf09b96a4b4099d'),
	('proj_01m816ccnczenbbnc2bb42180s', 'ctr_5faeg4tq4kaangxd94qxvwnm3x', 2, 19, 'ctr', 'automation_contract.enabled.v1', '{"etag": "\"ac:ctr_5faeg4tq4kaangxd94qxvwnm3x:2\"", "command": "4e9be37def3f5ebf78fcc99052f3112fbbf22029126553e2a41da8a5f72bfca4", "request": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "enabled_at": 2741416582, "enabled_by": "usr_73x4czd4ej43v1chxv2pj31wcw", "receipt_id": "enr_01m816cczkhj9xvfkft1n1a94b", "contract_id": "ctr_5faeg4tq4kaangxd94qxvwnm3x", "previous_etag": "\"ac:ctr_5faeg4tq4kaangxd94qxvwnm3x:1\"", "automation_ids": ["heal"], "contract_sha256": "c7dd56f93e4db4e02270252000cd9821aa2ffe5e98b95457756667864e48dc81", "contract_revision": 2}', 'event_01m816cd0fwxbmwvpg5h0ysse0', 'cmd_01m816cd05gv8sr14178qsh4te', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816cczj4sjqzmj2gw82dxz4', 'req_01m816cczj4sjqzmj2gw82dxz4', '', '2056-11-14 08:36:22.158199+00', '\x414ab2b3178d85a2c827ed7f1b3c28fa', '\x2b65fbb6a3571ba7d2ad9844a625799b59533350c7272fb1d3db4232f1a87158', '\xe752fc8a3a22293ac8f12c01756b9d8db6b086ead32c1314326959b99036021f', '\xda36287c2b7c0777e30373f01dd48dfdb1b6e31ba0daa6d06895556ecc0b53de'),
	('proj_01m816ccnczenbbnc2bb42180s', 'map_5faeg4tq4kaangxd94qxvwnm3x', 1, 11, 'map', 'signal_map.recorded.v1', '{"plan": {"deploy": {"targets": [{"file": "app.py", "anchor": "def main():"}], "sha_source": "git_head", "environment": "production"}, "failures": [{"marker": "declined", "context": ["step"], "meaning": "It did not.", "targets": [{"file": "app.py", "anchor": "def main():"}], "safe_live_proof": true, "provider_boundary": "server_provider"}], "milestones": [{"event": "paid", "meaning": "Money moved.", "targets": [{"file": "app.py", "anchor": "def main():"}], "properties": ["amount"], "provider_boundary": "server_provider"}], "plan_markdown": "A person enters, pays, and is served.", "source_snapshot": {"git_head_sha": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "source_fingerprint_sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "source_fingerprint_algorithm": "service-source-tree-sha256-v1"}, "business_question": "Who pays proj_01m816ccnczenbbnc2bb42180s?", "historical_evidence": null}, "plan_sha256": "1054fc95dd1ae98c44f39d9cafd6b524276b7b120b0cce8b33c786781130bbaf", "recorded_at": 2741416581}', 'event_01m816ccqxxfyjgqfyj2148t5s', 'cmd_01m816ccqtt0b78q4ffwp4pzzm', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816ccqs41v100cwx4n6tt32', 'req_01m816ccqs41v100cwx4n6tt32', '', '2056-11-14 08:36:21.88443+00', '\xdeec66d85261cb5ccd681cfecba46182', '\xf82015c625846bf05ef2eef26e0b8d30467d58190f924dbeececee90229c5b17', '\x9ef03114824d399380725fad2298b2542afb7005e8d52090c5065e5f97095f3b', '\xd0aad111c779a6ac1da469a9555fcca6bd20390c6939878b4ef6bda4e013bdec'),
	('proj_01m816ccnczenbbnc2bb42180s', 'onb_5faeg4tq4kaangxd94qxvwnm3x', 3, 12, 'onb', 'onboarding.proof_started.v1', '{"expires_at": 2741423781, "started_at": 2741416581, "ci_marker_sha256": "a1e21e35361792dc0530725f5c6a559fe7a86813021b2c0de826c0276164bd05", "proof_session_id": "ps_01m816ccr5eckj2nvwqghb7x6w", "runtime_marker_sha256": "c6a6d619536ed0bb7f7f80201aa4d079e63c62fe48b034212e430eb4ce15be41", "implementation_source_snapshot": {"git_head_sha": "dddddddddddddddddddddddddddddddddddddddd", "source_fingerprint_sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "source_fingerprint_algorithm": "service-source-tree-sha256-v1"}}', 'event_01m816ccr898857s26qszk9mkr', 'cmd_01m816ccr52qpaab7n8dwknm9d', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816ccr31phbfx0j18k7aj5x', 'req_01m816ccr31phbfx0j18k7aj5x', '', '2056-11-14 08:36:21.895848+00', '\xa13e92deeb62c45dfdc67e5c41ffdf3c', '\xe646d94ae57fe9f4dfab096ed02f805a6fb63f15581fbf5d3563e3bf993c47cb', '\xa1156c45779b15d39c52876c1ffdad1864f3451c6dd904bd4f528def1f953939', '\xc78eb1c63f6929c4c01b0ced4b06848cfa0d69798507504de2df2722163f78ce'),
	('proj_01m816ccnczenbbnc2bb42180s', 'case_6y0ckx7e6pay4pjcqpjx72crqq', 1, 13, 'case', 'case.opened.v1', '{"opened_at": 2741416581, "fingerprint": "808c1d4029649048872b2b7fbdd9874e", "grouping_version": 1}', 'event_01m816cctdja82c6byt5bqwpd5', 'log_01m816cct3a3ezpvtanedvj2f6', 'dsn', 'proj_01m816ccnczenbbnc2bb42180s', 'req_01m816cct1db187megrfws6w3w', 'req_01m816cct1db187megrfws6w3w', '', '2056-11-14 08:36:21.964793+00', '\xa8d3dfb6a743317a7a7e0f0e6aa602f2', '\x4aca024dc671ad04faa85ab0b988e3a1b0f1d8236a7ccc0e12a373495173deae', '\xba95bfc6244e7be8b8d6379de3b761359c849deda7655db64985b2385d8e49c9', '\xdaca7a9a3f2406ec07ef82c4160accac9ce312805d3ee2ca8d7f86d0e4d77a8b'),
	('proj_01m816ccnczenbbnc2bb42180s', 'dep_01m816cctyakx5sy7a5hp9nxtb', 1, 14, 'dep', 'deploy.recorded.v1', '{"sha": "dddddddddddddddddddddddddddddddddddddddd", "branch": null, "source": "ci", "trusted": true, "version": "1.0.0", "environment": "production", "recorded_at": 2741416581, "credential_id": "cred_2jw6ebw3wqtdnxretz1yk9zyb1", "proof_session_id": "ps_01m816ccr5eckj2nvwqghb7x6w", "automation_run_id": null, "proof_marker_hash": "a1e21e35361792dc0530725f5c6a559fe7a86813021b2c0de826c0276164bd05"}', 'event_01m816ccv83de17mbrnfx3nzpe', 'cmd_01m816ccv1bjkwswta3m1ktg4x', 'ci', 'cred_2jw6ebw3wqtdnxretz1yk9zyb1', 'req_01m816ccts8q1sne3ew2byqn96', 'req_01m816ccts8q1sne3ew2byqn96', '', '2056-11-14 08:36:21.991616+00', '\x133ebbbbfc6b990501fe847d99316ebd', '\xe7ebedd660eac9a7594b2085094eb92913ae904cfc89eee222cc6ed6757e3989', '\x5e17fba2740437d61972fb114b7b1448afdd8cda330e64adeedb4cfb248f841d', '\x8d7ce238094758917e9818bd4064986d44a0955c8a54f97c45df4f1567d2d4e9'),
	('proj_01m816ccnczenbbnc2bb42180s', 'onb_5faeg4tq4kaangxd94qxvwnm3x', 4, 15, 'onb', 'onboarding.verified.v1', '{"receipt": {"error": {"marker": "declined", "row_count": 1, "observed_context": ["step"], "required_context": ["step"], "provider_boundary": "server_provider"}, "deploy": {"row_count": 1, "environment": "production", "source_snapshot": {"git_head_sha": "dddddddddddddddddddddddddddddddddddddddd", "source_fingerprint_sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "source_fingerprint_algorithm": "service-source-tree-sha256-v1"}}, "analytics": [{"event": "paid", "row_count": 1, "provider_boundary": "server_provider", "observed_properties": ["amount"], "required_properties": ["amount"]}], "evidence_status": "source_verified", "source_verified_at": 2741416582}}', 'event_01m816ccwfvnpsafkxrtpfw48a', 'cmd_01m816ccwbzdrygk6m0yx1x0k5', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816ccvkvzxze2cvgat7qj2e', 'req_01m816ccvkvzxze2cvgat7qj2e', '', '2056-11-14 08:36:22.030944+00', '\xd306cfec2a24c42ece4a26826d5f9c6d', '\x615c35497b559c81fa54b9d40fb1bcfae92a27093b212b25fb47ba1e8599ea32', '\x5b57a5189701912cf215ab3ab9e3220fe0038a7dfbabf5cd5260736a3e62fcc2', '\xc9680f714f12fd1a7dc13104cdee3cb5189d283b114b6e555fba638792e0e434'),
	('proj_01m816ccnczenbbnc2bb42180s', 'map_5faeg4tq4kaangxd94qxvwnm3x', 2, 16, 'map', 'signal_map.verified.v1', '{"receipt": {"error": {"marker": "declined", "row_count": 1, "observed_context": ["step"], "required_context": ["step"], "provider_boundary": "server_provider"}, "deploy": {"row_count": 1, "environment": "production", "source_snapshot": {"git_head_sha": "dddddddddddddddddddddddddddddddddddddddd", "source_fingerprint_sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "source_fingerprint_algorithm": "service-source-tree-sha256-v1"}}, "analytics": [{"event": "paid", "row_count": 1, "provider_boundary": "server_provider", "observed_properties": ["amount"], "required_properties": ["amount"]}], "evidence_status": "source_verified", "source_verified_at": 2741416582}}', 'event_01m816ccwf1ktzb0vzkqsv0z1s', 'cmd_01m816ccwbzdrygk6m0yx1x0k5', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816ccvkvzxze2cvgat7qj2e', 'req_01m816ccvkvzxze2cvgat7qj2e', '', '2056-11-14 08:36:22.030944+00', '\xc16c43ff59887935692285c75de9e198', '\x1f4557766b73a1fac1daf58ef33ee59ee7ed954171392a0d6ef9d1b56619a6a6', '\x8a426f36bf8671e6dc163e8de4440723a98c4ba3226034ebee61d112463c0b66', '\x27810b7653a06375a2c01de30554950ac887f9789306acf756a17f6863adcbdb'),
	('proj_01m816ccnczenbbnc2bb42180s', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 1, 17, 'cred', 'credential.created.v1', '{"kind": "automation_runner", "name": "automation_runner", "prefix": "service_runner_w", "scopes": ["cases:read", "triggers:read", "triggers:issue", "claims:write", "runs:read", "runs:write", "approvals:request"], "request": "2a1be0cc7633f87adbab7a5326205540ce6b8b9cbbd4746a286391a2668ddd82", "runner_id": "runner_01m816ccwsgre7jvtn1zq2th21", "created_at": 2741416582, "created_by": "usr_73x4czd4ej43v1chxv2pj31wcw", "expires_at": 2749192582, "secret_hash": "57c0aa065c44fe3dde200ceaaf32826d22c3bdf0cec8f8968d423ba41f18b771", "automation_id": "heal"}', 'event_01m816ccwx42g9cbbrdwbc6vd8', 'cmd_01m816ccws8yjd5c1f1jz2q7qp', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816ccwrc099rb9mm3z0g1mz', 'req_01m816ccwrc099rb9mm3z0g1mz', '', '2056-11-14 08:36:22.044796+00', '\x0fbcf899224fa676a9610d6bf8569346', '\x42ba754d571539637ad4733f4a5ff9bbe2852f1af5be756389115d7e74b677ac', '\x202d96084c2df2b17d583dddea0729da0c44eda13ff03ebd8dabbdb265d82046', '\x5df304491756339081543fc1469f8dbe6239ff4d10acb31fd88b6048a4cb61aa'),
	('proj_01m816ccnczenbbnc2bb42180s', 'ctr_5faeg4tq4kaangxd94qxvwnm3x', 1, 18, 'ctr', 'automation_contract.saved.v1', '{"saved_at": 2741416582, "saved_by": "usr_73x4czd4ej43v1chxv2pj31wcw", "automations": [{"policy": "{\"allowed_actions\":[\"draft_pr\",\"escalate\"],\"automation_id\":\"heal\",\"budgets\":{\"max_attempts_per_case_revision\":20,\"max_cost_usd_per_run\":25,\"max_prs_per_day\":100,\"max_runs_per_day\":1000,\"max_runtime_seconds\":3600,\"max_turns_per_run\":500},\"code_delivery\":{\"mode\":\"review_required\"},\"data_boundary\":{\"telemetry_instruction_authority\":\"none\"},\"enabled\":false,\"escalation\":{\"destination\":\"#on-call\",\"instructions\":\"Say what was tried.\"},\"execution\":{\"provider\":\"coding_agent_a\"},\"forbidden_actions\":[\"direct_merge\",\"force_merge\",\"merge_bypass\",\"deploy\",\"rollback\",\"direct_push\"],\"name\":\"Heal the shop\",\"playbook_id\":\"error-to-draft-pr\",\"playbook_version\":\"4.0.0\",\"required_trust\":\"customer_provider\",\"runner\":{\"default_branch\":\"main\",\"provider\":\"coding_agent_a\",\"repository\":\"https://code.example/acme/shop\"},\"runner_mode\":\"draft_only\",\"scope\":{\"allowed_paths\":[\"src/\"],\"max_changed_lines\":400,\"max_files_changed\":10,\"test_commands\":[\"make test\"]},\"trigger\":{\"cooldown_seconds\":60,\"kind\":\"unhandled_cases\",\"materiality\":{\"maximum_last_seen_age_seconds\":86400,\"minimum_event_count\":1},\"max_cases_per_sweep\":100},\"verification\":{\"blueprint_id\":\"deploy-recurrence\",\"max_wait_seconds\":86400,\"min_sample_size\":1,\"observation_window_seconds\":60,\"traffic_sample_event\":\"paid\"},\"workflow\":null}", "bindings": "{\"automation_id\":\"heal\",\"budgets\":{\"max_attempts_per_case_revision\":20,\"max_cost_usd_per_run\":25,\"max_prs_per_day\":100,\"max_runs_per_day\":1000,\"max_runtime_seconds\":3600,\"max_turns_per_run\":500},\"escalation\":{\"destination\":\"#on-call\",\"instructions\":\"Say what was tried.\"},\"execution\":{\"provider\":\"coding_agent_a\"},\"name\":\"Heal the shop\",\"runner\":{\"default_branch\":\"main\",\"provider\":\"coding_agent_a\",\"repository\":\"https://code.example/acme/shop\"},\"scope\":{\"allowed_paths\":[\"src/\"],\"max_changed_lines\":400,\"max_files_changed\":10,\"test_commands\":[\"make test\"]},\"traffic_sample_event\":\"paid\",\"trigger\":{\"cooldown_seconds\":60,\"materiality\":{\"maximum_last_seen_age_seconds\":86400,\"minimum_event_count\":1},\"max_cases_per_sweep\":100},\"verification\":{\"max_wait_seconds\":86400,\"min_sample_size\":1,\"observation_window_seconds\":60}}", "playbook_id": "error-to-draft-pr", "automation_id": "heal", "policy_sha256": "edd3b6da41c5970be1bcf682692935525b22ca7548a03fd846408a783daa168e", "template_hash": "e6462254fc86ab6ff56b0580daf7a0454cb78dd41e9b16304b9f50f875b19b29", "playbook_version": "4.0.0", "readiness_assertions": "{\"ci_proof_callback_configured\":true,\"deploy_ingest_configured\":true,\"repository_pull_request_access_confirmed\":true}"}], "contract_id": "ctr_5faeg4tq4kaangxd94qxvwnm3x", "policy_version": 2, "contract_sha256": "c7dd56f93e4db4e02270252000cd9821aa2ffe5e98b95457756667864e48dc81"}', 'event_01m816cczcmt8p895k2zdh7xwg', 'cmd_01m816ccy8xw70w7ksvs4y5397', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816ccy44qsk7bgbrggwvyqj', 'req_01m816ccy44qsk7bgbrggwvyqj', '', '2056-11-14 08:36:22.123843+00', '\x44ad6478bf6e662045144759cdd0585d', '\x84b49c13cf62c36cd87685d218508ddc51e10779c1e8bec970b87d716e2b2c86', '\xb4eda94db63458d4b0224c6f780f5e7190cf821b6e4c703c74423e3eee91cf66', '\x33cf178ca2801d9080851f26fbea179e2bba9e99b9f06a8e6a24b480976b14b3'),
	('proj_01m816ccnczenbbnc2bb42180s', 'case_01npny24xjfzkjtgj6zzptxa0e', 1, 20, 'case', 'case.opened.v1', '{"opened_at": 2741416582, "fingerprint": "89065821b8004bdfc304c252cfbd1ce6", "grouping_version": 1}', 'event_01m816cd0rjv5spsaemxprxsgt', 'log_01m816cd0pzfeev8q8hf20r7vw', 'dsn', 'proj_01m816ccnczenbbnc2bb42180s', 'req_01m816cd0n8n4tyc158qpwgmzm', 'req_01m816cd0n8n4tyc158qpwgmzm', '', '2056-11-14 08:36:22.168229+00', '\x6cc4a82aa927af2efbc0a40730dc38fb', '\x430f152abdebc5ea47959d7565c00b5cc86364c6c2086624a16636bc4af93b74', '\xb95a39b7de055768b6989b5b0417ce321c3f7706bf51c47d7b043f27553ce0ea', '\xe146c233ce66863c4e6ef41dab28fde938cec9545452241689ad78751efb50c3'),
	('proj_01m816ccnczenbbnc2bb42180s', 'case_7efxtwzwdhhexjmkq2v404kvyr', 1, 33, 'case', 'case.opened.v1', '{"opened_at": 2741416582, "fingerprint": "4990c9ce0fb036d67f34c854b1c1dc12", "grouping_version": 1}', 'event_01m816cdg01fa9pb0b9jpdtjct', 'log_01m816cdfx4yq85f1f3ywccjrd', 'dsn', 'proj_01m816ccnczenbbnc2bb42180s', 'req_01m816cdfxdnbev7tqfxq31nmw', 'req_01m816cdfxdnbev7tqfxq31nmw', '', '2056-11-14 08:36:22.655917+00', '\xac30154bd4ca6c2de0870da543524e7d', '\x658b8c14e2d3691d04f8888f3f605fe3c220af0d938a3b9cb616e4516cf557f4', '\xdcbfdc2520f72843ba479aa7401bd21ed5adabf52a153be9ab614c29f9bd7072', '\x1b188db171893be7b3f01bf7d4b12404adc153dedbf48d193ac1503689d18788'),
	('proj_01m816ccnczenbbnc2bb42180s', 'trc_7mcvq9t5ebhgnmp4549z3hjhmf', 1, 21, 'trc', 'trigger_receipt.issued.v1', '{"case": {"level": "error", "trust": "customer_provider", "status": "open", "case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "event_count": 1, "fingerprint": "89065821b8004bdfc304c252cfbd1ce6", "last_seen_at": 2741416582, "case_revision": 1, "first_seen_at": 2741416582}, "slot": null, "playbook": {"id": "error-to-draft-pr", "version": "4.0.0", "template_hash": "e6462254fc86ab6ff56b0580daf7a0454cb78dd41e9b16304b9f50f875b19b29"}, "issued_at": 2741416582, "expires_at": 2741420182, "generation": 2, "materiality": {"checks": [{"check": "lifecycle_active", "passed": true, "observed": "open", "required": "open"}, {"check": "trusted_source", "passed": true, "observed": "customer_provider", "required": "customer_provider"}, {"check": "event_count", "passed": true, "observed": "1", "required": ">=1"}, {"check": "last_seen_present", "passed": true, "observed": "2741416582", "required": "present"}, {"check": "last_seen_not_future", "passed": true, "observed": "2741416582", "required": "<=2741416582"}, {"check": "last_seen_age", "passed": true, "observed": "0", "required": "<=86400"}], "inputs": {"trust": "customer_provider", "status": "open", "case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "revision": 1, "event_count": 1, "last_seen_at": 2741416582, "first_seen_at": 2741416582}, "passed": true, "decided_at": 2741416582, "thresholds": {"minimum_event_count": 1, "maximum_last_seen_age_seconds": 86400}, "age_seconds": 0}, "receipt_kind": "unhandled_case", "automation_id": "heal", "policy_sha256": "edd3b6da41c5970be1bcf682692935525b22ca7548a03fd846408a783daa168e", "snapshot_sha256": "b1f967256775f8a777837872a13094ae5377c9300dd663b0ea63dd469d7de19e", "contract_revision": 2}', 'event_01m816cd1q0qdr6bf0k76hn7y9', 'cmd_01m816cd1f5ncmav6cgm0d0cf6', 'runner', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'req_01m816cd0xpvj5vy6vzkzqnjyw', 'req_01m816cd0xpvj5vy6vzkzqnjyw', '', '2056-11-14 08:36:22.198035+00', '\x5176dd71a988082fcb3b0b03587f19c1', '\x0dae82da128c1480ef4d6a394c559e8185147e560a0130da69feeb48c1fea0e9', '\x8be5d57f27eb8f53d3bca754ca73443ce8a12d91364f1cc93617c9d9293fa34c', '\xffd9276405339a08825955be95c9696ca094e6ab64786fb39d9e86b38cbf1d71'),
	('proj_01m816ccnczenbbnc2bb42180s', 'lease_3236pb7a0sdnvca58nf9t0fz6n', 1, 22, 'lease', 'lease.offered.v1', '{"case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "ordinal": 1, "offered_at": 2741416582, "receipt_id": "trc_7mcvq9t5ebhgnmp4549z3hjhmf", "automation_id": "heal", "case_revision": 1}', 'event_01m816cd1qg4zb12khh3mbsxka', 'cmd_01m816cd1f5ncmav6cgm0d0cf6', 'runner', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'req_01m816cd0xpvj5vy6vzkzqnjyw', 'req_01m816cd0xpvj5vy6vzkzqnjyw', '', '2056-11-14 08:36:22.198035+00', '\xf08c665ee59b255a1a7a66ba721f84c7', '\xb8af1a1f1a3efa1d3101452c7df18011050e47574832decad57a85bf0161ce51', '\x9bf0781f9a442ebe2e212dbd8b85dfb49c8e28846ef38dbc9507af315c810d71', '\xd8ca9f33e6a928f75e0349fdab49f971913f742524f7aefa2a19db48cc8d08c2'),
	('proj_01m816ccnczenbbnc2bb42180s', 'trc_7mcvq9t5ebhgnmp4549z3hjhmf', 2, 23, 'trc', 'trigger_receipt.claimed.v1', '{"claim_id": "claim_3rc61rpvp8mp9tkdk9yd6edz2h", "claimed_at": 2741416582}', 'event_01m816cd24f1j93aknmttybk7h', 'cmd_01m816cd1z95svz6pf392gwpd4', 'runner', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'req_01m816cd1yqjyhzsx5rccrct52', 'req_01m816cd1yqjyhzsx5rccrct52', '', '2056-11-14 08:36:22.211687+00', '\x477841e7e48e2a3b28b40a10d06cc4ec', '\x8c7719f4a7e1eeeb96a64d8c96eba7700e40553e0d83bb788f6030f793a59e92', '\x0e695ab6e6ad543b5f96581ec7214c6f8c7ee8229ce2993402a43970eeeb2436', '\xc641501da65aaaa549d550517ba1c569b0b7c3410984da5f4265c6520608ddc3'),
	('proj_01m816ccnczenbbnc2bb42180s', 'lease_3236pb7a0sdnvca58nf9t0fz6n', 2, 24, 'lease', 'lease.taken.v1', '{"epoch": 1, "claim_id": "claim_3rc61rpvp8mp9tkdk9yd6edz2h", "taken_at": 2741416582}', 'event_01m816cd249y76yv9std5y82n2', 'cmd_01m816cd1z95svz6pf392gwpd4', 'runner', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'req_01m816cd1yqjyhzsx5rccrct52', 'req_01m816cd1yqjyhzsx5rccrct52', '', '2056-11-14 08:36:22.211687+00', '\x455cfe080bc028cd81184dd26dfcd878', '\x4b4fcbea504dfb521fb28a68655b19a3bf36c726bfffeab88909a30d27b48b5d', '\x9b8642e606b5abe6199e9718e8d6bad6791db98da30d7c3e5d0e8a91189480cb', '\xa2032f425f181092844050f04940df2c837fead7b3c9e5e5c5df068e2b077866'),
	('proj_01m816ccnczenbbnc2bb42180s', 'claim_3rc61rpvp8mp9tkdk9yd6edz2h', 1, 25, 'claim', 'claim.created.v1', '{"case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "runner_id": "runner_01m816ccwsgre7jvtn1zq2th21", "claimed_at": 2741416582, "receipt_id": "trc_7mcvq9t5ebhgnmp4549z3hjhmf", "lease_epoch": 1, "automation_id": "heal", "case_revision": 1, "lease_expires_at": 2741417482}', 'event_01m816cd249ew2w43ya4tmhdgw', 'cmd_01m816cd1z95svz6pf392gwpd4', 'runner', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'req_01m816cd1yqjyhzsx5rccrct52', 'req_01m816cd1yqjyhzsx5rccrct52', '', '2056-11-14 08:36:22.211687+00', '\xeafd9734079f058033db32fc844e97f8', '\x537c0e6b9ee4b45c44ae6234c2f564237c537a99e4960396697f87de42afda50', '\x85734011cfa2b941a4fd25e75088b12218dfeb5156d7260753ab019a1766b5e8', '\x12c32586e1c56bedc713a7502f66a5e74e3e29d2bef031c4a30f9e1266cb8d53'),
	('proj_01m816ccnczenbbnc2bb42180s', 'trc_7mcvq9t5ebhgnmp4549z3hjhmf', 3, 26, 'trc', 'trigger_receipt.consumed.v1', '{"run_id": "run_33wp7waghkhzwcmara3jpxva9y", "consumed_at": 2741416582, "materiality": {"checks": [{"check": "lifecycle_active", "passed": true, "observed": "open", "required": "open"}, {"check": "trusted_source", "passed": true, "observed": "customer_provider", "required": "customer_provider"}, {"check": "event_count", "passed": true, "observed": "1", "required": ">=1"}, {"check": "last_seen_present", "passed": true, "observed": "2741416582", "required": "present"}, {"check": "last_seen_not_future", "passed": true, "observed": "2741416582", "required": "<=2741416582"}, {"check": "last_seen_age", "passed": true, "observed": "0", "required": "<=86400"}], "inputs": {"trust": "customer_provider", "status": "open", "case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "revision": 1, "event_count": 1, "last_seen_at": 2741416582, "first_seen_at": 2741416582}, "passed": true, "decided_at": 2741416582, "thresholds": {"minimum_event_count": 1, "maximum_last_seen_age_seconds": 86400}, "age_seconds": 0}}', 'event_01m816cd2gb7hxfnvca90x16xq', 'cmd_01m816cd2afac9pwyq02ywbewy', 'runner', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'req_01m816cd29sn97g3mnwff7qmjn', 'req_01m816cd29sn97g3mnwff7qmjn', '', '2056-11-14 08:36:22.223289+00', '\xbcc2b1d790c9daf4228dd05815b8f60e', '\xb81204be18f6bcb56401b9cdbd58e3835e15d9b676291a5e6ad29a89a184894b', '\x3f434c4ebbc8d7c744715239e355f786140ef8e7b09170cd0e8bb7991a4403a8', '\xbcf41e481ed4469a7cfc5deb017c59cf3e18329a4baaec37dc1b0b2a52560e13'),
	('proj_01m816ccnczenbbnc2bb42180s', 'led_7enzd8r00jnt9a9y06wffgkk5m', 1, 27, 'led', 'ledger.run_charged.v1', '{"run_id": "run_33wp7waghkhzwcmara3jpxva9y", "charged_at": 2741416582}', 'event_01m816cd2gt0pr2115kfv783ba', 'cmd_01m816cd2afac9pwyq02ywbewy', 'runner', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'req_01m816cd29sn97g3mnwff7qmjn', 'req_01m816cd29sn97g3mnwff7qmjn', '', '2056-11-14 08:36:22.223289+00', '\xd3f1956a716afa55122363a20a1fcd05', '\xcfc0e8e32d02a59c5825708ca686e25cdc6cd756fbbd796b51e5fcaf70468751', '\x2c3aed8695f447754e0a09bd6113d3a14f2254f55e2ff2478f75591e90e5f4af', '\x1c301ec704c97d6b4e359f7d1ebd1abfcd893ed361986333f12d475a121daf14'),
	('proj_01m816ccnczenbbnc2bb42180s', 'run_33wp7waghkhzwcmara3jpxva9y', 1, 28, 'run', 'run.started.v1', '{"terms": {"limits": {"max_prs_per_day": 100, "max_runs_per_day": 1000, "max_turns_per_run": 500, "max_runtime_seconds": 3600, "max_cost_usd_per_run": "25", "max_attempts_per_case_revision": 20}, "delivery": {"mode": "review_required", "merge_method": null, "required_status_checks": []}, "playbook": {"id": "error-to-draft-pr", "version": "4.0.0", "template_hash": "e6462254fc86ab6ff56b0580daf7a0454cb78dd41e9b16304b9f50f875b19b29"}, "repository": "https://code.example/acme/shop", "base_branch": "main", "environment": null, "verification": {"min_sample_size": 1, "max_wait_seconds": 86400, "traffic_sample_event": "paid", "observation_window_seconds": 60}}, "case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "claim_id": "claim_3rc61rpvp8mp9tkdk9yd6edz2h", "runner_id": "runner_01m816ccwsgre7jvtn1zq2th21", "receipt_id": "trc_7mcvq9t5ebhgnmp4549z3hjhmf", "started_at": 2741416582, "deadline_at": 2741420182, "lease_epoch": 1, "automation_id": "heal", "case_revision": 1, "policy_sha256": "edd3b6da41c5970be1bcf682692935525b22ca7548a03fd846408a783daa168e"}', 'event_01m816cd2gdqfex7pm6ynq012r', 'cmd_01m816cd2afac9pwyq02ywbewy', 'runner', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'req_01m816cd29sn97g3mnwff7qmjn', 'req_01m816cd29sn97g3mnwff7qmjn', '', '2056-11-14 08:36:22.223289+00', '\xa638b374aa9350a62521cf74b2823801', '\x79c6de5a586ce38fcfc718607a363bd9179de9dc89a9145700169438b3206111', '\x41a271afc9e8c63c633e2811b4a68cac416ff0bad1d2cbc8947f2b027ce3c9ba', '\x0785710664f61150f6e8fceb53cd195fbd1a10864d46b19d6f74408a4b82b7f4'),
	('proj_01m816ccnczenbbnc2bb42180s', 'lease_3236pb7a0sdnvca58nf9t0fz6n', 3, 29, 'lease', 'lease.spent.v1', '{"run_id": "run_33wp7waghkhzwcmara3jpxva9y", "spent_at": 2741416582, "automation_id": "heal", "case_revision": 1}', 'event_01m816cd2gs373myd8s2vvvc52', 'cmd_01m816cd2afac9pwyq02ywbewy', 'runner', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'req_01m816cd29sn97g3mnwff7qmjn', 'req_01m816cd29sn97g3mnwff7qmjn', '', '2056-11-14 08:36:22.223289+00', '\x130a46ec234d29bd07e41b2e1b5b9468', '\xec8d2af8fa5696ea54276259703ad5c7955587c6e0aa6409cc705eda9298e31d', '\xcd4949eef0f433d95f8154f8d8253484eef72fc94a8442680960149649104d92', '\x594f5fa81addbf2cf3ba141bbb10550eaddeab647115b3b83f411064c37e7270'),
	('proj_01m816ccnczenbbnc2bb42180s', 'claim_3rc61rpvp8mp9tkdk9yd6edz2h', 2, 30, 'claim', 'claim.bound.v1', '{"run_id": "run_33wp7waghkhzwcmara3jpxva9y", "deadline_at": 2741420182}', 'event_01m816cd2gjnwfdjggsvv2tdr0', 'cmd_01m816cd2afac9pwyq02ywbewy', 'runner', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'req_01m816cd29sn97g3mnwff7qmjn', 'req_01m816cd29sn97g3mnwff7qmjn', '', '2056-11-14 08:36:22.223289+00', '\x68ee0812c4d337618dbe1c40a368dd6a', '\x6659628833e48a282e5a2c81e9532b89df81f77291a007c13f6fdd13b8516c73', '\xc9be45a631cdfa4b64a5ca9a5dedc4da0595d78131b38a32c563ea45dcb7de1d', '\x7d4899408ab4e49656a0e65f82c236fb69cac59f140e3ee741b2e1cee36a2347'),
	('proj_01m816ccnczenbbnc2bb42180s', 'run_33wp7waghkhzwcmara3jpxva9y', 2, 31, 'run', 'run.progressed.v1', '{"at": 2741416582}', 'event_01m816cd2xr4gn1js0dm18c8cc', 'cmd_01m816cd2tw3g0e57sneyk0kt8', 'runner', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'req_01m816cd2savdnve68stwdppxr', 'req_01m816cd2savdnve68stwdppxr', '', '2056-11-14 08:36:22.236983+00', '\xe2b82f8952d92acadce79a958940788e', '\x0188a251e22352df8052cf3d05ae8f72cca6143c9b1f55fb526b563d72e47c9e', '\x37003ade63b2d87c7c336f73c9adfee2b4dd80eaebddca6b8e751f6433c313f5', '\x0d6a846db63f52b7cc6d16f51eec08c3fcd5e86e6ee598d9bbf7dd824d20e518'),
	('dev_59baf3e5hh1r5mkh248eqap8v9', 'dev_59baf3e5hh1r5mkh248eqap8v9', 1, 32, 'dev', 'sign_in.started.v1', '{"expires_at": 2741417482, "started_at": 2741416582, "client_name": null, "device_code_hash": "19a116e4ce633fbff06147b7fc5286af1cf2f9c00bd085582e9e49601b783b62"}', 'event_01m816cdfsjgkrnqctpbvv6p6j', 'cmd_01m816cdfqmg4rw2ge0kxh4dm1', 'anonymous', 'anonymous', 'req_01m816cdfpjtpnsfcbk1mbgnv2', 'req_01m816cdfpjtpnsfcbk1mbgnv2', '', '2056-11-14 08:36:22.649099+00', '\x5064a01f8ee045eaaf85ab2227c5f726', '\xe83815cc60110b3f6f72b0d88da37ed77bda0e6529b4032e8dc2db44e5e1df2e', '\x948ea41cf74d3445fd8f814fc668c6fd71023a83e6342c0cb497b21f7dbbbb3a', '\xec8b5a0bb1752c0a0c3e7d003ec256e60b6ad595c57657e4ea0f2501a8aae5e0'),
	('proj_01m816cdg5sjjfkg487mwb75zy', 'proj_01m816cdg5sjjfkg487mwb75zy', 1, 34, 'proj', 'project.created.v1', '{"name": "begun while nobody numbers", "dsn_hash": "cbb338b672817742bc847b511fb56c330629746a0b819e5379c52511dff9a639", "synthetic": false, "created_at": 2741416582, "created_by": "usr_73x4czd4ej43v1chxv2pj31wcw", "dsn_prefix": "service_dsn_RSUBU5oX"}', 'event_01m816cdg8y2ygz7cmr8v2zmjv', 'cmd_01m816cdg5y6fnx0zbzqs28c4m', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816cdg497p2p5x5s13ky7ba', 'req_01m816cdg497p2p5x5s13ky7ba', '', '2056-11-14 08:36:22.664429+00', '\xbda558678f609a1e182062cc72691916', '\xb8dea0e2e0d415e7e20857d4d9257f9932fc689fcfb12a520aa15a8d4cb408d9', '\xc9b0b43eb428026baecc4fa83bf06c217243621c91b6a8056dd958ddecbabb99', '\xb34b7ed396c4b66c1a0af4a5565f44cd6e22a37d020577dd38609649b0858433'),
	('proj_01m816cdg5sjjfkg487mwb75zy', 'mem_76tkc157dps4msd1sek1qda125', 1, 35, 'mem', 'membership.owner_added.v1', '{"user_id": "usr_73x4czd4ej43v1chxv2pj31wcw", "added_at": 2741416582}', 'event_01m816cdg8bh1c1xnbpyapasxy', 'cmd_01m816cdg5y6fnx0zbzqs28c4m', 'key', 'key_01m816ccmy2ssdghayk5pe1x6g', 'req_01m816cdg497p2p5x5s13ky7ba', 'req_01m816cdg497p2p5x5s13ky7ba', '', '2056-11-14 08:36:22.664429+00', '\x1525bc4f59df2f8904a1386d9789f485', '\x71ef6143a148c9dcedfd842e04ac04d033e6ddbca2786b8a6133fbc493392c04', '\x6e3bfe838bfebb708cd896e53b7a31b284d0a092fc6692f93fdc8b8af925a027', '\xa8b7d4d45012be5dcabd9e0b396ccd040771b152ce59a1e13b703754cec49f2a');


--
-- Data for Name: grants; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: idempotency; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.idempotency VALUES
	('', 'anonymous:anonymous', 'POST /v1/auth/device', 'cmd_01m816ccjs1nxzzp436282pc28', '', 'cmd_01m816ccjs1nxzzp436282pc28', false, NULL, NULL, '{}', '2056-11-14 08:36:21.75779+00'),
	('', 'internal:internal', 'POST /v1/auth/device/authorize', 'cmd_01m816ccmc8gqmhrp3d4rnadsj', '', 'cmd_01m816ccmc8gqmhrp3d4rnadsj', false, 200, '\x7b22737461747573223a226f6b222c22757365725f6964223a227573725f37337834637a6434656a343376316368787632706a3331776377227d', '{}', '2056-11-14 08:36:21.77903+00'),
	('', 'anonymous:anonymous', 'POST /v1/auth/device/poll', 'cmd_01m816ccmycxmt5p40pv9ahes1', '', 'cmd_01m816ccmycxmt5p40pv9ahes1', false, NULL, NULL, '{}', '2056-11-14 08:36:21.79477+00'),
	('usr_73x4czd4ej43v1chxv2pj31wcw', 'key:key_01m816ccmy2ssdghayk5pe1x6g', 'POST /v1/projects', 'cmd_01m816ccnf5d1b85n7pf1henw7', '', 'cmd_01m816ccnf5d1b85n7pf1henw7', false, 201, '\x7b226c6f67735f75726c223a22687474703a2f2f3132372e302e302e313a33353133372f76312f6c6f67732f222c22616e616c79746963735f75726c223a22687474703a2f2f3132372e302e302e313a33353133372f76312f616e616c79746963732f222c226465706c6f79735f75726c223a22687474703a2f2f3132372e302e302e313a33353133372f76312f6465706c6f79732f222c226465706c6f79735f6e6f7465223a224465706c6f797320617265207265636f726465642066726f6d2043492c2077697468207468652044534e206f72207769746820612063695f6465706c6f792063726564656e7469616c3b206e657665722066726f6d20612062726f777365722e222c226964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c226e616d65223a2273686f70222c22726f6c65223a226f776e6572222c2264736e223a6e756c6c2c2264736e5f707265666978223a22736572766963655f64736e5f61576a4d7244366b222c2264736e5f7265636f76657261626c65223a747275652c22637265617465645f6174223a323734313431363538312c226e6578745f616374696f6e223a225468652044534e207761732073686f776e206f6e63653b207265616420697420616761696e207769746820474554202f76312f70726f6a656374732f7b70726f6a6563745f69647d2f64736e2e227d', '{}', '2056-11-14 08:36:21.81672+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'key:key_01m816ccmy2ssdghayk5pe1x6g', 'POST /v1/projects/proj_01m816ccnczenbbnc2bb42180s/credentials', '5e79287f62249e93', '4dc69dfb53b646921f9a7c41dc464e7082eed485fecaed7a02ecda3c12ff8927', 'cmd_01m816ccpjm8vg200whagsrk7a', true, 200, '\x7b226964223a22637265645f326a773665627733777174646e787265747a31796b397a796231222c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c226e616d65223a2263695f6465706c6f79222c22707265666978223a22736572766963655f63695f544c6e7562222c22637265617465645f6279223a227573725f37337834637a6434656a343376316368787632706a3331776377222c226b696e64223a2263695f6465706c6f79222c2273636f706573223a5b226465706c6f79733a7772697465222c226175746f6d6174696f6e5f70726f6f66733a7772697465225d2c226175746f6d6174696f6e5f6964223a6e756c6c2c22637265617465645f6174223a323734313431363538312c22657870697265735f6174223a323734393139323538312c226c6173745f757365645f6174223a6e756c6c2c227265766f6b65645f6174223a6e756c6c2c227265766f6b655f726561736f6e223a6e756c6c2c22616374697665223a747275652c22656e765f766172223a22534552564943455f43495f4150495f4b4559222c2272756e6e65725f6964223a6e756c6c2c226964656d706f74656e745f7265706c6179223a747275657d', '{}', '2056-11-14 08:36:21.849765+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'key:key_01m816ccmy2ssdghayk5pe1x6g', 'POST /v1/projects/proj_01m816ccnczenbbnc2bb42180s/onboarding', 'cmd_01m816ccqbmeyzakrrxjksdbyn', '', 'cmd_01m816ccqbmeyzakrrxjksdbyn', false, 201, '\x7b22737461747573223a22706c616e6e6564222c22696e7374616c6c6174696f6e5f636f6d706c657465223a66616c73652c2265766964656e63655f737461747573223a7b22686973746f726963616c223a226e6f745f65737461626c6973686564222c22736f75726365223a2270656e64696e67227d2c2265746167223a225c226f6e623a6f6e625f3566616567347471346b61616e6778643934717876776e6d33783a315c22222c22636f6e74726163745f76657273696f6e223a332c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c226f6e626f617264696e675f6964223a226f6e625f3566616567347471346b61616e6778643934717876776e6d3378222c227265766973696f6e223a312c22706c616e5f736861323536223a2231303534666339356464316165393863343466333964396361666436623532343237366237623132306230636365386233336337383637383131333062626166222c22757064617465645f6174223a323734313431363538312c22706c616e223a7b22627573696e6573735f7175657374696f6e223a2257686f20706179732070726f6a5f30316d38313663636e637a656e62626e633262623432313830733f222c22706c616e5f6d61726b646f776e223a224120706572736f6e20656e746572732c20706179732c20616e64206973207365727665642e222c22736f757263655f736e617073686f74223a7b226769745f686561645f736861223a2261616161616161616161616161616161616161616161616161616161616161616161616161616161222c22736f757263655f66696e6765727072696e745f736861323536223a2262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262222c22736f757263655f66696e6765727072696e745f616c676f726974686d223a22736572766963652d736f757263652d747265652d7368613235362d7631227d2c22686973746f726963616c5f65766964656e6365223a6e756c6c2c226d696c6573746f6e6573223a5b7b226576656e74223a2270616964222c226d65616e696e67223a224d6f6e6579206d6f7665642e222c2270726f76696465725f626f756e64617279223a227365727665725f70726f7669646572222c2270726f70657274696573223a5b22616d6f756e74225d2c2274617267657473223a5b7b2266696c65223a226170702e7079222c22616e63686f72223a22646566206d61696e28293a227d5d7d5d2c226661696c75726573223a5b7b226d61726b6572223a226465636c696e6564222c226d65616e696e67223a22497420646964206e6f742e222c2270726f76696465725f626f756e64617279223a227365727665725f70726f7669646572222c22636f6e74657874223a5b2273746570225d2c22736166655f6c6976655f70726f6f66223a747275652c2274617267657473223a5b7b2266696c65223a226170702e7079222c22616e63686f72223a22646566206d61696e28293a227d5d7d5d2c226465706c6f79223a7b22656e7669726f6e6d656e74223a2270726f64756374696f6e222c227368615f736f75726365223a226769745f68656164222c2274617267657473223a5b7b2266696c65223a226170702e7079222c22616e63686f72223a22646566206d61696e28293a227d5d7d7d2c226e6578745f616374696f6e223a7b226964223a227265766965775f65786163745f706c616e222c22696e737472756374696f6e223a22507574207468697320657861637420706c616e206265666f72652074686520726573706f6e7369626c652068756d616e20616e64206361727279207468656972206465636973696f6e206261636b2e222c2272657175697265735f68756d616e223a747275652c226f7065726174696f6e223a7b226d6574686f64223a22504f5354222c2270617468223a222f76312f70726f6a656374732f70726f6a5f30316d38313663636e637a656e62626e633262623432313830732f6f6e626f617264696e672f726576696577227d2c22636865636b6c697374223a5b2250726573656e7420746865206175646974656420686973746f72792077696e646f7720616e64206974732071756572792072656365697074206279207468656d73656c7665732c20616e642074686520736f757263652074617267657473206279207468656d73656c7665732e222c2253617920706c61696e6c79207468617420726f77732066726f6d20686973746f727920646f206e6f742070726f7665207468617420616e797468696e672069732063617074757265642061742074686f7365207461726765747320746f6461792e222c225761697420756e74696c207468652068756d616e206578706c696369746c79206465636964657320746f20617070726f7665207468697320706c616e206f7220746f207265706c6163652069743b2073696c656e6365206973206e6f206465636973696f6e2e222c22504f53542074686174206465636973696f6e207769746820706c616e5f73686132353620746f2074686520726576696577206f7065726174696f6e2c20776974682049662d4d617463682073657420746f2074686973207374617465277320657461672e225d2c22636f6d706c6574696f6e5f636f6e646974696f6e223a225468652072657669657720616e7377657265642032303020616e64207468652073746174757320697320617070726f7665642c206f7220706c616e6e6564207769746820616e6f7468657220706c616e2e222c2267756964655f616e63686f72223a222f696e7374616c6c2e6d64237265766965772d706c616e227d7d', '{"etag": "\"onb:onb_5faeg4tq4kaangxd94qxvwnm3x:1\""}', '2056-11-14 08:36:21.871728+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'key:key_01m816ccmy2ssdghayk5pe1x6g', 'POST /v1/projects/proj_01m816ccnczenbbnc2bb42180s/onboarding/review', 'cmd_01m816ccqtt0b78q4ffwp4pzzm', '', 'cmd_01m816ccqtt0b78q4ffwp4pzzm', false, 200, '\x7b22737461747573223a22617070726f766564222c22696e7374616c6c6174696f6e5f636f6d706c657465223a66616c73652c2265766964656e63655f737461747573223a7b22686973746f726963616c223a226e6f745f65737461626c6973686564222c22736f75726365223a2270656e64696e67227d2c2265746167223a225c226f6e623a6f6e625f3566616567347471346b61616e6778643934717876776e6d33783a325c22222c22636f6e74726163745f76657273696f6e223a332c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c226f6e626f617264696e675f6964223a226f6e625f3566616567347471346b61616e6778643934717876776e6d3378222c227265766973696f6e223a322c22706c616e5f736861323536223a2231303534666339356464316165393863343466333964396361666436623532343237366237623132306230636365386233336337383637383131333062626166222c22757064617465645f6174223a323734313431363538312c22706c616e223a7b22627573696e6573735f7175657374696f6e223a2257686f20706179732070726f6a5f30316d38313663636e637a656e62626e633262623432313830733f222c22706c616e5f6d61726b646f776e223a224120706572736f6e20656e746572732c20706179732c20616e64206973207365727665642e222c22736f757263655f736e617073686f74223a7b226769745f686561645f736861223a2261616161616161616161616161616161616161616161616161616161616161616161616161616161222c22736f757263655f66696e6765727072696e745f736861323536223a2262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262222c22736f757263655f66696e6765727072696e745f616c676f726974686d223a22736572766963652d736f757263652d747265652d7368613235362d7631227d2c22686973746f726963616c5f65766964656e6365223a6e756c6c2c226d696c6573746f6e6573223a5b7b226576656e74223a2270616964222c226d65616e696e67223a224d6f6e6579206d6f7665642e222c2270726f76696465725f626f756e64617279223a227365727665725f70726f7669646572222c2270726f70657274696573223a5b22616d6f756e74225d2c2274617267657473223a5b7b2266696c65223a226170702e7079222c22616e63686f72223a22646566206d61696e28293a227d5d7d5d2c226661696c75726573223a5b7b226d61726b6572223a226465636c696e6564222c226d65616e696e67223a22497420646964206e6f742e222c2270726f76696465725f626f756e64617279223a227365727665725f70726f7669646572222c22636f6e74657874223a5b2273746570225d2c22736166655f6c6976655f70726f6f66223a747275652c2274617267657473223a5b7b2266696c65223a226170702e7079222c22616e63686f72223a22646566206d61696e28293a227d5d7d5d2c226465706c6f79223a7b22656e7669726f6e6d656e74223a2270726f64756374696f6e222c227368615f736f75726365223a226769745f68656164222c2274617267657473223a5b7b2266696c65223a226170702e7079222c22616e63686f72223a22646566206d61696e28293a227d5d7d7d2c226e6578745f616374696f6e223a7b226964223a22696e737472756d656e745f616e645f73746172745f70726f6f66222c22696e737472756374696f6e223a224275696c6420776861742077617320617070726f7665642c20636f6d6d69742069742c20616e64206f70656e20612070726f6f662073657373696f6e20666f72207468617420636f6d6d69742e222c2272657175697265735f68756d616e223a66616c73652c226f7065726174696f6e223a7b226d6574686f64223a22504f5354222c2270617468223a222f76312f70726f6a656374732f70726f6a5f30316d38313663636e637a656e62626e633262623432313830732f6f6e626f617264696e672f70726f6f66227d2c22636865636b6c697374223a5b22537461792077697468207468652070726f76696465722053444b732074686174207468652070726f6475637420616c726561647920757365733b206e6f206f746865722074656c656d657472792063726564656e7469616c206973206e65656465642e222c224361707475726520657665727920617070726f766564206576656e74206166746572206974732064757261626c6520737563636573732c20616e6420616e20657863657074696f6e20617420657665727920617070726f766564206661696c75726520657869742e222c224174746163682074686520736572766963655f6f6e626f617264696e675f70726f6f662070726f7065727479206f6e6c79207768696c65206974732073657373696f6e2d73746f72616765206f72207365727665722d656e7669726f6e6d656e742076616c7565206973207365742c20616e64206e65766572207075742061206d61726b657220696e746f20612062756e646c65206f7220746865207265706f7369746f72792e222c224765742074686520746573747320677265656e2c20636f6d6d69742065766572797468696e6720736f207468617420746865207472656520697320636c65616e2c20616e642074616b65207468652066696e616c20736e617073686f74207769746820736f757263652d736e617073686f742e6d6a73202d2d66696e616c2e222c22504f5354207468617420736e617073686f7420746f207468652070726f6f66206f7065726174696f6e2c20776974682049662d4d617463682073657420746f2074686973207374617465277320657461672e225d2c22636f6d706c6574696f6e5f636f6e646974696f6e223a225468652070726f6f6620616e7377657265642032303120776974682061206d61726b6572207061697220616e6420746865207374617475732069732070726f76696e672e222c2267756964655f616e63686f72223a222f696e7374616c6c2e6d6423696e737472756d656e742d616e642d70726f7665227d2c22617070726f7665645f6174223a323734313431363538317d', '{"etag": "\"onb:onb_5faeg4tq4kaangxd94qxvwnm3x:2\""}', '2056-11-14 08:36:21.88443+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'key:key_01m816ccmy2ssdghayk5pe1x6g', 'POST /v1/projects/proj_01m816ccnczenbbnc2bb42180s/onboarding/proof', 'cmd_01m816ccr52qpaab7n8dwknm9d', '', 'cmd_01m816ccr52qpaab7n8dwknm9d', false, NULL, NULL, '{"etag": "\"onb:onb_5faeg4tq4kaangxd94qxvwnm3x:3\""}', '2056-11-14 08:36:21.895848+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'ci:cred_2jw6ebw3wqtdnxretz1yk9zyb1', 'POST /v1/deploys', 'cmd_01m816ccv1bjkwswta3m1ktg4x', '', 'cmd_01m816ccv1bjkwswta3m1ktg4x', false, 202, '\x7b226964223a226465705f30316d38313663637479616b783573793761356870396e787462222c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c2272656365697665645f6174223a323734313431363538312c2274727573746564223a747275652c226f6e626f617264696e675f70726f6f665f6d617463686564223a747275652c226175746f6d6174696f6e5f72756e5f6964223a6e756c6c2c226e6578745f616374696f6e223a224e6f7468696e672068617320746f20626520646f6e652e205265636f726420746865206e657874206465706c6f7920616674657220697420686173207375636365656465642e222c226f6b223a747275652c226163636570746564223a747275657d', '{}', '2056-11-14 08:36:21.991616+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'key:key_01m816ccmy2ssdghayk5pe1x6g', 'POST /v1/projects/proj_01m816ccnczenbbnc2bb42180s/onboarding/verify', 'cmd_01m816ccwbzdrygk6m0yx1x0k5', '', 'cmd_01m816ccwbzdrygk6m0yx1x0k5', false, 200, '\x7b226f6b223a747275652c227374617465223a7b22737461747573223a227665726966696564222c22696e7374616c6c6174696f6e5f636f6d706c657465223a747275652c2265766964656e63655f737461747573223a7b22686973746f726963616c223a226e6f745f65737461626c6973686564222c22736f75726365223a22736f757263655f7665726966696564227d2c2265746167223a225c226f6e623a6f6e625f3566616567347471346b61616e6778643934717876776e6d33783a345c22222c22636f6e74726163745f76657273696f6e223a332c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c226f6e626f617264696e675f6964223a226f6e625f3566616567347471346b61616e6778643934717876776e6d3378222c227265766973696f6e223a342c22706c616e5f736861323536223a2231303534666339356464316165393863343466333964396361666436623532343237366237623132306230636365386233336337383637383131333062626166222c22757064617465645f6174223a323734313431363538322c22706c616e223a7b22627573696e6573735f7175657374696f6e223a2257686f20706179732070726f6a5f30316d38313663636e637a656e62626e633262623432313830733f222c22706c616e5f6d61726b646f776e223a224120706572736f6e20656e746572732c20706179732c20616e64206973207365727665642e222c22736f757263655f736e617073686f74223a7b226769745f686561645f736861223a2261616161616161616161616161616161616161616161616161616161616161616161616161616161222c22736f757263655f66696e6765727072696e745f736861323536223a2262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262222c22736f757263655f66696e6765727072696e745f616c676f726974686d223a22736572766963652d736f757263652d747265652d7368613235362d7631227d2c22686973746f726963616c5f65766964656e6365223a6e756c6c2c226d696c6573746f6e6573223a5b7b226576656e74223a2270616964222c226d65616e696e67223a224d6f6e6579206d6f7665642e222c2270726f76696465725f626f756e64617279223a227365727665725f70726f7669646572222c2270726f70657274696573223a5b22616d6f756e74225d2c2274617267657473223a5b7b2266696c65223a226170702e7079222c22616e63686f72223a22646566206d61696e28293a227d5d7d5d2c226661696c75726573223a5b7b226d61726b6572223a226465636c696e6564222c226d65616e696e67223a22497420646964206e6f742e222c2270726f76696465725f626f756e64617279223a227365727665725f70726f7669646572222c22636f6e74657874223a5b2273746570225d2c22736166655f6c6976655f70726f6f66223a747275652c2274617267657473223a5b7b2266696c65223a226170702e7079222c22616e63686f72223a22646566206d61696e28293a227d5d7d5d2c226465706c6f79223a7b22656e7669726f6e6d656e74223a2270726f64756374696f6e222c227368615f736f75726365223a226769745f68656164222c2274617267657473223a5b7b2266696c65223a226170702e7079222c22616e63686f72223a22646566206d61696e28293a227d5d7d7d2c226e6578745f616374696f6e223a6e756c6c2c22696d706c656d656e746174696f6e5f736f757263655f736e617073686f74223a7b226769745f686561645f736861223a2264646464646464646464646464646464646464646464646464646464646464646464646464646464222c22736f757263655f66696e6765727072696e745f736861323536223a2262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262222c22736f757263655f66696e6765727072696e745f616c676f726974686d223a22736572766963652d736f757263652d747265652d7368613235362d7631227d2c2270726f6f665f73657373696f6e223a7b2270726f6f665f73657373696f6e5f6964223a2270735f30316d3831366363723565636b6a326e76777167686237783677222c22737461747573223a22736174697366696564222c22737461727465645f6174223a323734313431363538312c22657870697265735f6174223a323734313432333738317d2c2272656365697074223a7b2265766964656e63655f737461747573223a22736f757263655f7665726966696564222c22736f757263655f76657269666965645f6174223a323734313431363538322c22616e616c7974696373223a5b7b226576656e74223a2270616964222c2270726f76696465725f626f756e64617279223a227365727665725f70726f7669646572222c2272657175697265645f70726f70657274696573223a5b22616d6f756e74225d2c226f627365727665645f70726f70657274696573223a5b22616d6f756e74225d2c22726f775f636f756e74223a317d5d2c226572726f72223a7b226d61726b6572223a226465636c696e6564222c2270726f76696465725f626f756e64617279223a227365727665725f70726f7669646572222c2272657175697265645f636f6e74657874223a5b2273746570225d2c226f627365727665645f636f6e74657874223a5b2273746570225d2c22726f775f636f756e74223a317d2c226465706c6f79223a7b22656e7669726f6e6d656e74223a2270726f64756374696f6e222c22736f757263655f736e617073686f74223a7b226769745f686561645f736861223a2264646464646464646464646464646464646464646464646464646464646464646464646464646464222c22736f757263655f66696e6765727072696e745f736861323536223a2262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262626262222c22736f757263655f66696e6765727072696e745f616c676f726974686d223a22736572766963652d736f757263652d747265652d7368613235362d7631227d2c22726f775f636f756e74223a317d7d7d2c2272656d61696e696e67223a7b22616e616c7974696373223a7b22626c6f636b657273223a5b5d2c226d696c6573746f6e6573223a5b5d2c2270726f70657274696573223a5b5d7d2c22736166655f6572726f72223a6e756c6c2c226465706c6f79223a6e756c6c7d7d', '{"etag": "\"onb:onb_5faeg4tq4kaangxd94qxvwnm3x:4\""}', '2056-11-14 08:36:22.030944+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'key:key_01m816ccmy2ssdghayk5pe1x6g', 'POST /v1/projects/proj_01m816ccnczenbbnc2bb42180s/credentials', 'd3c357b210f4f6d0', '2a1be0cc7633f87adbab7a5326205540ce6b8b9cbbd4746a286391a2668ddd82', 'cmd_01m816ccws8yjd5c1f1jz2q7qp', true, 200, '\x7b226964223a22637265645f323476396138306d32346a776337706a65617173646a6472336a222c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c226e616d65223a226175746f6d6174696f6e5f72756e6e6572222c22707265666978223a22736572766963655f72756e6e65725f77222c22637265617465645f6279223a227573725f37337834637a6434656a343376316368787632706a3331776377222c226b696e64223a226175746f6d6174696f6e5f72756e6e6572222c2273636f706573223a5b2263617365733a72656164222c2274726967676572733a72656164222c2274726967676572733a6973737565222c22636c61696d733a7772697465222c2272756e733a72656164222c2272756e733a7772697465222c22617070726f76616c733a72657175657374225d2c226175746f6d6174696f6e5f6964223a226865616c222c22637265617465645f6174223a323734313431363538322c22657870697265735f6174223a323734393139323538322c226c6173745f757365645f6174223a6e756c6c2c227265766f6b65645f6174223a6e756c6c2c227265766f6b655f726561736f6e223a6e756c6c2c22616374697665223a747275652c22656e765f766172223a22534552564943455f52554e4e45525f4150495f4b4559222c2272756e6e65725f6964223a2272756e6e65725f30316d38313663637773677265376a76746e317a713274683231222c226964656d706f74656e745f7265706c6179223a747275657d', '{}', '2056-11-14 08:36:22.044796+00'),
	('usr_73x4czd4ej43v1chxv2pj31wcw', 'key:key_01m816ccmy2ssdghayk5pe1x6g', 'PUT /v1/projects/proj_01m816ccnczenbbnc2bb42180s/automation-contract', 'cmd_01m816ccy8xw70w7ksvs4y5397', '', 'cmd_01m816ccy8xw70w7ksvs4y5397', false, 201, '\x7b22636f6e74726163745f6964223a226374725f3566616567347471346b61616e6778643934717876776e6d3378222c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c22706f6c6963795f76657273696f6e223a322c227265766973696f6e223a312c2265746167223a225c2261633a6374725f3566616567347471346b61616e6778643934717876776e6d33783a315c22222c22636f6e74726163745f736861323536223a2263376464353666393365346462346530323237303235323030306364393832316161326666653565393862393534353737353636363738363465343864633831222c22656e61626c6564223a66616c73652c22706175736564223a66616c73652c227061757365645f6174223a6e756c6c2c226175746f6d6174696f6e73223a5b7b22706c6179626f6f6b223a7b226964223a226572726f722d746f2d64726166742d7072222c2276657273696f6e223a22342e302e30222c2274656d706c6174655f68617368223a2265363436323235346663383661623666663536623035383064616637613034353463623738646434316539623136333034623966353066383735623139623239227d2c2262696e64696e6773223a7b226175746f6d6174696f6e5f6964223a226865616c222c2262756467657473223a7b226d61785f617474656d7074735f7065725f636173655f7265766973696f6e223a32302c226d61785f636f73745f7573645f7065725f72756e223a32352c226d61785f7072735f7065725f646179223a3130302c226d61785f72756e735f7065725f646179223a313030302c226d61785f72756e74696d655f7365636f6e6473223a333630302c226d61785f7475726e735f7065725f72756e223a3530307d2c22657363616c6174696f6e223a7b2264657374696e6174696f6e223a22236f6e2d63616c6c222c22696e737472756374696f6e73223a225361792077686174207761732074726965642e227d2c22657865637574696f6e223a7b2270726f7669646572223a22636f64696e675f6167656e745f61227d2c226e616d65223a224865616c207468652073686f70222c2272756e6e6572223a7b2264656661756c745f6272616e6368223a226d61696e222c2270726f7669646572223a22636f64696e675f6167656e745f61222c227265706f7369746f7279223a2268747470733a2f2f636f64652e6578616d706c652f61636d652f73686f70227d2c2273636f7065223a7b22616c6c6f7765645f7061746873223a5b227372632f225d2c226d61785f6368616e6765645f6c696e6573223a3430302c226d61785f66696c65735f6368616e676564223a31302c22746573745f636f6d6d616e6473223a5b226d616b652074657374225d7d2c22747261666669635f73616d706c655f6576656e74223a2270616964222c2274726967676572223a7b22636f6f6c646f776e5f7365636f6e6473223a36302c226d6174657269616c697479223a7b226d6178696d756d5f6c6173745f7365656e5f6167655f7365636f6e6473223a38363430302c226d696e696d756d5f6576656e745f636f756e74223a317d2c226d61785f63617365735f7065725f7377656570223a3130307d2c22766572696669636174696f6e223a7b226d61785f776169745f7365636f6e6473223a38363430302c226d696e5f73616d706c655f73697a65223a312c226f62736572766174696f6e5f77696e646f775f7365636f6e6473223a36307d7d2c2272656164696e6573735f617373657274696f6e73223a7b2263695f70726f6f665f63616c6c6261636b5f636f6e66696775726564223a747275652c226465706c6f795f696e676573745f636f6e66696775726564223a747275652c227265706f7369746f72795f70756c6c5f726571756573745f6163636573735f636f6e6669726d6564223a747275657d2c22706f6c696379223a7b22616c6c6f7765645f616374696f6e73223a5b2264726166745f7072222c22657363616c617465225d2c226175746f6d6174696f6e5f6964223a226865616c222c2262756467657473223a7b226d61785f617474656d7074735f7065725f636173655f7265766973696f6e223a32302c226d61785f636f73745f7573645f7065725f72756e223a32352c226d61785f7072735f7065725f646179223a3130302c226d61785f72756e735f7065725f646179223a313030302c226d61785f72756e74696d655f7365636f6e6473223a333630302c226d61785f7475726e735f7065725f72756e223a3530307d2c22636f64655f64656c6976657279223a7b226d6f6465223a227265766965775f7265717569726564227d2c22646174615f626f756e64617279223a7b2274656c656d657472795f696e737472756374696f6e5f617574686f72697479223a226e6f6e65227d2c22656e61626c6564223a66616c73652c22657363616c6174696f6e223a7b2264657374696e6174696f6e223a22236f6e2d63616c6c222c22696e737472756374696f6e73223a225361792077686174207761732074726965642e227d2c22657865637574696f6e223a7b2270726f7669646572223a22636f64696e675f6167656e745f61227d2c22666f7262696464656e5f616374696f6e73223a5b226469726563745f6d65726765222c22666f7263655f6d65726765222c226d657267655f627970617373222c226465706c6f79222c22726f6c6c6261636b222c226469726563745f70757368225d2c226e616d65223a224865616c207468652073686f70222c22706c6179626f6f6b5f6964223a226572726f722d746f2d64726166742d7072222c22706c6179626f6f6b5f76657273696f6e223a22342e302e30222c2272657175697265645f7472757374223a22637573746f6d65725f70726f7669646572222c2272756e6e6572223a7b2264656661756c745f6272616e6368223a226d61696e222c2270726f7669646572223a22636f64696e675f6167656e745f61222c227265706f7369746f7279223a2268747470733a2f2f636f64652e6578616d706c652f61636d652f73686f70227d2c2272756e6e65725f6d6f6465223a2264726166745f6f6e6c79222c2273636f7065223a7b22616c6c6f7765645f7061746873223a5b227372632f225d2c226d61785f6368616e6765645f6c696e6573223a3430302c226d61785f66696c65735f6368616e676564223a31302c22746573745f636f6d6d616e6473223a5b226d616b652074657374225d7d2c2274726967676572223a7b22636f6f6c646f776e5f7365636f6e6473223a36302c226b696e64223a22756e68616e646c65645f6361736573222c226d6174657269616c697479223a7b226d6178696d756d5f6c6173745f7365656e5f6167655f7365636f6e6473223a38363430302c226d696e696d756d5f6576656e745f636f756e74223a317d2c226d61785f63617365735f7065725f7377656570223a3130307d2c22766572696669636174696f6e223a7b22626c75657072696e745f6964223a226465706c6f792d726563757272656e6365222c226d61785f776169745f7365636f6e6473223a38363430302c226d696e5f73616d706c655f73697a65223a312c226f62736572766174696f6e5f77696e646f775f7365636f6e6473223a36302c22747261666669635f73616d706c655f6576656e74223a2270616964227d2c22776f726b666c6f77223a6e756c6c7d2c226175746f6d6174696f6e5f6964223a226865616c222c22656e61626c6564223a66616c73652c22656e61626c65645f6174223a6e756c6c2c2264697361626c65645f6174223a6e756c6c2c2264697361626c65645f726561736f6e223a6e756c6c2c22706f6c6963795f736861323536223a2265646433623664613431633539373062653162636636383236393239333535323562323263613735343861303366643834363430386137383364616131363865227d5d2c22656e61626c655f72656365697074223a6e756c6c2c22637265617465645f6174223a323734313431363538322c22757064617465645f6174223a323734313431363538322c22757064617465645f6279223a227573725f37337834637a6434656a343376316368787632706a3331776377222c226e6578745f616374696f6e223a22437265617465207468652072756e6e65722063726564656e7469616c732c207265766965772074686520636f6e74726163742c20616e64206861766520616e206f776e657220656e61626c652069742e227d', '{"etag": "\"ac:ctr_5faeg4tq4kaangxd94qxvwnm3x:1\""}', '2056-11-14 08:36:22.123843+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'key:key_01m816ccmy2ssdghayk5pe1x6g', 'POST /v1/projects/proj_01m816ccnczenbbnc2bb42180s/automation-contract/enable', '3445667cd6a782a9', '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a', 'cmd_01m816cd05gv8sr14178qsh4te', true, 200, '\x7b22656e61626c655f72656365697074223a7b22726563656970745f6964223a22656e725f30316d38313663637a6b686a397876666b6674316e3161393462222c22636f6e74726163745f6964223a226374725f3566616567347471346b61616e6778643934717876776e6d3378222c22636f6e74726163745f736861323536223a2263376464353666393365346462346530323237303235323030306364393832316161326666653565393862393534353737353636363738363465343864633831222c22636f6e74726163745f7265766973696f6e223a322c2270726576696f75735f65746167223a225c2261633a6374725f3566616567347471346b61616e6778643934717876776e6d33783a315c22222c2265746167223a225c2261633a6374725f3566616567347471346b61616e6778643934717876776e6d33783a325c22222c226175746f6d6174696f6e5f696473223a5b226865616c225d2c22656e61626c65645f6174223a323734313431363538322c22656e61626c65645f6279223a227573725f37337834637a6434656a343376316368787632706a3331776377227d2c22636f6e7472616374223a7b22636f6e74726163745f6964223a226374725f3566616567347471346b61616e6778643934717876776e6d3378222c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c22706f6c6963795f76657273696f6e223a322c227265766973696f6e223a322c2265746167223a225c2261633a6374725f3566616567347471346b61616e6778643934717876776e6d33783a325c22222c22636f6e74726163745f736861323536223a2263376464353666393365346462346530323237303235323030306364393832316161326666653565393862393534353737353636363738363465343864633831222c22656e61626c6564223a747275652c22706175736564223a66616c73652c227061757365645f6174223a6e756c6c2c226175746f6d6174696f6e73223a5b7b22706c6179626f6f6b223a7b226964223a226572726f722d746f2d64726166742d7072222c2276657273696f6e223a22342e302e30222c2274656d706c6174655f68617368223a2265363436323235346663383661623666663536623035383064616637613034353463623738646434316539623136333034623966353066383735623139623239227d2c2262696e64696e6773223a7b226175746f6d6174696f6e5f6964223a226865616c222c2262756467657473223a7b226d61785f617474656d7074735f7065725f636173655f7265766973696f6e223a32302c226d61785f636f73745f7573645f7065725f72756e223a32352c226d61785f7072735f7065725f646179223a3130302c226d61785f72756e735f7065725f646179223a313030302c226d61785f72756e74696d655f7365636f6e6473223a333630302c226d61785f7475726e735f7065725f72756e223a3530307d2c22657363616c6174696f6e223a7b2264657374696e6174696f6e223a22236f6e2d63616c6c222c22696e737472756374696f6e73223a225361792077686174207761732074726965642e227d2c22657865637574696f6e223a7b2270726f7669646572223a22636f64696e675f6167656e745f61227d2c226e616d65223a224865616c207468652073686f70222c2272756e6e6572223a7b2264656661756c745f6272616e6368223a226d61696e222c2270726f7669646572223a22636f64696e675f6167656e745f61222c227265706f7369746f7279223a2268747470733a2f2f636f64652e6578616d706c652f61636d652f73686f70227d2c2273636f7065223a7b22616c6c6f7765645f7061746873223a5b227372632f225d2c226d61785f6368616e6765645f6c696e6573223a3430302c226d61785f66696c65735f6368616e676564223a31302c22746573745f636f6d6d616e6473223a5b226d616b652074657374225d7d2c22747261666669635f73616d706c655f6576656e74223a2270616964222c2274726967676572223a7b22636f6f6c646f776e5f7365636f6e6473223a36302c226d6174657269616c697479223a7b226d6178696d756d5f6c6173745f7365656e5f6167655f7365636f6e6473223a38363430302c226d696e696d756d5f6576656e745f636f756e74223a317d2c226d61785f63617365735f7065725f7377656570223a3130307d2c22766572696669636174696f6e223a7b226d61785f776169745f7365636f6e6473223a38363430302c226d696e5f73616d706c655f73697a65223a312c226f62736572766174696f6e5f77696e646f775f7365636f6e6473223a36307d7d2c2272656164696e6573735f617373657274696f6e73223a7b2263695f70726f6f665f63616c6c6261636b5f636f6e66696775726564223a747275652c226465706c6f795f696e676573745f636f6e66696775726564223a747275652c227265706f7369746f72795f70756c6c5f726571756573745f6163636573735f636f6e6669726d6564223a747275657d2c22706f6c696379223a7b22616c6c6f7765645f616374696f6e73223a5b2264726166745f7072222c22657363616c617465225d2c226175746f6d6174696f6e5f6964223a226865616c222c2262756467657473223a7b226d61785f617474656d7074735f7065725f636173655f7265766973696f6e223a32302c226d61785f636f73745f7573645f7065725f72756e223a32352c226d61785f7072735f7065725f646179223a3130302c226d61785f72756e735f7065725f646179223a313030302c226d61785f72756e74696d655f7365636f6e6473223a333630302c226d61785f7475726e735f7065725f72756e223a3530307d2c22636f64655f64656c6976657279223a7b226d6f6465223a227265766965775f7265717569726564227d2c22646174615f626f756e64617279223a7b2274656c656d657472795f696e737472756374696f6e5f617574686f72697479223a226e6f6e65227d2c22656e61626c6564223a66616c73652c22657363616c6174696f6e223a7b2264657374696e6174696f6e223a22236f6e2d63616c6c222c22696e737472756374696f6e73223a225361792077686174207761732074726965642e227d2c22657865637574696f6e223a7b2270726f7669646572223a22636f64696e675f6167656e745f61227d2c22666f7262696464656e5f616374696f6e73223a5b226469726563745f6d65726765222c22666f7263655f6d65726765222c226d657267655f627970617373222c226465706c6f79222c22726f6c6c6261636b222c226469726563745f70757368225d2c226e616d65223a224865616c207468652073686f70222c22706c6179626f6f6b5f6964223a226572726f722d746f2d64726166742d7072222c22706c6179626f6f6b5f76657273696f6e223a22342e302e30222c2272657175697265645f7472757374223a22637573746f6d65725f70726f7669646572222c2272756e6e6572223a7b2264656661756c745f6272616e6368223a226d61696e222c2270726f7669646572223a22636f64696e675f6167656e745f61222c227265706f7369746f7279223a2268747470733a2f2f636f64652e6578616d706c652f61636d652f73686f70227d2c2272756e6e65725f6d6f6465223a2264726166745f6f6e6c79222c2273636f7065223a7b22616c6c6f7765645f7061746873223a5b227372632f225d2c226d61785f6368616e6765645f6c696e6573223a3430302c226d61785f66696c65735f6368616e676564223a31302c22746573745f636f6d6d616e6473223a5b226d616b652074657374225d7d2c2274726967676572223a7b22636f6f6c646f776e5f7365636f6e6473223a36302c226b696e64223a22756e68616e646c65645f6361736573222c226d6174657269616c697479223a7b226d6178696d756d5f6c6173745f7365656e5f6167655f7365636f6e6473223a38363430302c226d696e696d756d5f6576656e745f636f756e74223a317d2c226d61785f63617365735f7065725f7377656570223a3130307d2c22766572696669636174696f6e223a7b22626c75657072696e745f6964223a226465706c6f792d726563757272656e6365222c226d61785f776169745f7365636f6e6473223a38363430302c226d696e5f73616d706c655f73697a65223a312c226f62736572766174696f6e5f77696e646f775f7365636f6e6473223a36302c22747261666669635f73616d706c655f6576656e74223a2270616964227d2c22776f726b666c6f77223a6e756c6c7d2c226175746f6d6174696f6e5f6964223a226865616c222c22656e61626c6564223a747275652c22656e61626c65645f6174223a323734313431363538322c2264697361626c65645f6174223a6e756c6c2c2264697361626c65645f726561736f6e223a6e756c6c2c22706f6c6963795f736861323536223a2265646433623664613431633539373062653162636636383236393239333535323562323263613735343861303366643834363430386137383364616131363865227d5d2c22656e61626c655f72656365697074223a7b22726563656970745f6964223a22656e725f30316d38313663637a6b686a397876666b6674316e3161393462222c22636f6e74726163745f6964223a226374725f3566616567347471346b61616e6778643934717876776e6d3378222c22636f6e74726163745f736861323536223a2263376464353666393365346462346530323237303235323030306364393832316161326666653565393862393534353737353636363738363465343864633831222c22636f6e74726163745f7265766973696f6e223a322c2270726576696f75735f65746167223a225c2261633a6374725f3566616567347471346b61616e6778643934717876776e6d33783a315c22222c2265746167223a225c2261633a6374725f3566616567347471346b61616e6778643934717876776e6d33783a325c22222c226175746f6d6174696f6e5f696473223a5b226865616c225d2c22656e61626c65645f6174223a323734313431363538322c22656e61626c65645f6279223a227573725f37337834637a6434656a343376316368787632706a3331776377227d2c22637265617465645f6174223a323734313431363538322c22757064617465645f6174223a323734313431363538322c22757064617465645f6279223a227573725f37337834637a6434656a343376316368787632706a3331776377222c226e6578745f616374696f6e223a224c657420746865207363686564756c65722077616b6520656163682072756e6e65723b2070617573652073746f70732065766572797468696e67206174206f6e63652e227d2c226964656d706f74656e745f7265706c6179223a66616c73652c226e6578745f616374696f6e223a224c657420746865207363686564756c65722077616b65207468652072756e6e6572206f66206561636820656e61626c6564206175746f6d6174696f6e2e227d', '{"etag": "\"ac:ctr_5faeg4tq4kaangxd94qxvwnm3x:2\""}', '2056-11-14 08:36:22.158199+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'runner:cred_24v9a80m24jwc7pjeaqsdjdr3j', 'POST /v1/projects/proj_01m816ccnczenbbnc2bb42180s/automation-triggers/issue', 'issue', 'dbae7b3a2968dc263142ccb4da1310dc46eba6b24ecfc6131742c58292a2844a', 'cmd_01m816cd1f5ncmav6cgm0d0cf6', true, 200, '\x7b2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c226175746f6d6174696f6e5f6964223a226865616c222c227365727665725f74696d65223a323734313431363538322c22747269676765725f7265636569707473223a5b7b22726563656970745f6964223a227472635f376d637671397435656268676e6d70343534397a33686a686d66222c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c226175746f6d6174696f6e5f6964223a226865616c222c226b696e64223a22756e68616e646c65645f63617365222c22737461747573223a22697373756564222c22706f6c6963795f736861323536223a2265646433623664613431633539373062653162636636383236393239333535323562323263613735343861303366643834363430386137383364616131363865222c22636f6e74726163745f7265766973696f6e223a322c226973737565645f6174223a323734313431363538322c22657870697265735f6174223a323734313432303138322c2263617365223a7b22636173655f6964223a22636173655f30316e706e793234786a667a6b6a74676a367a7a707478613065222c22636173655f7265766973696f6e223a312c2266696e6765727072696e74223a223839303635383231623830303462646663333034633235326366626431636536222c227469746c65223a224c6f73743a20546865206f7264657220776173206c6f73742e222c226c6576656c223a226572726f72222c22737461747573223a226f70656e222c227472757374223a22637573746f6d65725f70726f7669646572222c226576656e745f636f756e74223a312c2266697273745f7365656e5f6174223a323734313431363538322c226c6173745f7365656e5f6174223a323734313431363538327d2c227363686564756c65223a6e756c6c2c226d6174657269616c697479223a7b226d696e696d756d5f6576656e745f636f756e74223a312c226d6178696d756d5f6c6173745f7365656e5f6167655f7365636f6e6473223a38363430302c226167655f7365636f6e6473223a302c22706173736564223a747275657d2c22636c61696d5f6964223a6e756c6c2c22636f6e73756d65645f72756e5f6964223a6e756c6c2c22736e617073686f745f736861323536223a2262316639363732353637373566386137373738333738373261313330393461653533373763393330306464363633623065613633646434363964376465313965222c226e6578745f616374696f6e223a22436c61696d207468652063617365206f66207468697320726563656970742061742069747320636173655f7265766973696f6e2c207468656e207374617274207468652072756e2e227d5d2c22636f756e74223a312c22736b6970706564223a5b7b22636f6465223a226d6174657269616c6974795f6e6f745f6d6574222c22636173655f6964223a22636173655f367930636b7837653670617934706a6371706a78373263727171222c227363686564756c65645f666f72223a6e756c6c7d5d2c226e6578745f616374696f6e223a22436c61696d207468652063617365206f66206120726563656970742c206f72207374617274207468652072756e206f662061207363686564756c6564206f6e652c206265666f726520697420657870697265732e227d', '{}', '2056-11-14 08:36:22.198035+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'runner:cred_24v9a80m24jwc7pjeaqsdjdr3j', 'POST /v1/cases/case_01npny24xjfzkjtgj6zzptxa0e/claims', 'claim', 'c4200baf509820cf63391523d9ee20ee2b89f1787dc71b43e7ba334269580c58', 'cmd_01m816cd1z95svz6pf392gwpd4', true, 201, '\x7b22636c61696d5f6964223a22636c61696d5f337263363172707670386d7039746b646b3979643665647a3268222c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c22636173655f6964223a22636173655f30316e706e793234786a667a6b6a74676a367a7a707478613065222c22636173655f7265766973696f6e223a312c226175746f6d6174696f6e5f6964223a226865616c222c2272756e6e65725f6964223a2272756e6e65725f30316d38313663637773677265376a76746e317a713274683231222c22747269676765725f726563656970745f6964223a227472635f376d637671397435656268676e6d70343534397a33686a686d66222c22737461747573223a22616374697665222c226c656173655f65706f6368223a312c226c656173655f657870697265735f6174223a323734313431373438322c22636c61696d65645f6174223a323734313431363538322c2272656e657765645f6174223a6e756c6c2c2272656c65617365645f6174223a6e756c6c2c2272756e5f6964223a6e756c6c2c226e6578745f616374696f6e223a2252656e6577206265666f7265206c656173655f657870697265735f61742c20616e64207374617274207468652072756e20776974682074686520726563656970742e227d', '{}', '2056-11-14 08:36:22.211687+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'runner:cred_24v9a80m24jwc7pjeaqsdjdr3j', 'POST /v1/projects/proj_01m816ccnczenbbnc2bb42180s/automation-runs', 'start', 'eefbb6c7a92945dcb78f138509ed2e6fd3b3bc6efda9ecef2728261347befe38', 'cmd_01m816cd2afac9pwyq02ywbewy', true, 201, '\x7b2272756e5f6964223a2272756e5f3333777037776167686b687a77636d617261336a707876613979222c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c226175746f6d6174696f6e5f6964223a226865616c222c22706c6179626f6f6b223a7b226964223a226572726f722d746f2d64726166742d7072222c2276657273696f6e223a22342e302e30222c2274656d706c6174655f68617368223a2265363436323235346663383661623666663536623035383064616637613034353463623738646434316539623136333034623966353066383735623139623239227d2c22706f6c6963795f736861323536223a2265646433623664613431633539373062653162636636383236393239333535323562323263613735343861303366643834363430386137383364616131363865222c22747269676765725f726563656970745f6964223a227472635f376d637671397435656268676e6d70343534397a33686a686d66222c22636173655f6964223a22636173655f30316e706e793234786a667a6b6a74676a367a7a707478613065222c22636173655f7265766973696f6e223a312c22636c61696d5f6964223a22636c61696d5f337263363172707670386d7039746b646b3979643665647a3268222c2272756e6e65725f6964223a2272756e6e65725f30316d38313663637773677265376a76746e317a713274683231222c227068617365223a2272756e5f73746172746564222c22737461747573223a6e756c6c2c2273746174655f7265766973696f6e223a312c226c656173655f65706f6368223a312c226c656173655f657870697265735f6174223a323734313431373438322c22737461727465645f6174223a323734313431363538322c22646561646c696e655f6174223a323734313432303138322c22757064617465645f6174223a323734313431363538322c2266696e69736865645f6174223a6e756c6c2c226c696d697473223a7b226d61785f72756e735f7065725f646179223a313030302c226d61785f7072735f7065725f646179223a3130302c226d61785f617474656d7074735f7065725f636173655f7265766973696f6e223a32302c226d61785f7475726e735f7065725f72756e223a3530302c226d61785f72756e74696d655f7365636f6e6473223a333630302c226d61785f636f73745f7573645f7065725f72756e223a32352e307d2c2263686172676573223a7b227475726e73223a302c22636f73745f757364223a302e302c2272756e74696d655f7365636f6e6473223a307d2c22617070726f76616c73223a5b5d2c226772616e7473223a5b5d2c2270756c6c5f72657175657374223a6e756c6c2c2270726f76696465725f70726f6f66223a6e756c6c2c226175746f5f6d657267655f72656365697074223a6e756c6c2c226465706c6f79223a6e756c6c2c22766572696669636174696f6e223a6e756c6c2c227265706f72745f6964223a6e756c6c2c226f7574707574223a6e756c6c2c22726561736f6e223a6e756c6c2c2265787465726e616c5f666f6c6c6f775f757073223a5b5d2c226964656d706f74656e745f7265706c6179223a66616c73652c226e6578745f616374696f6e223a22436861726765207573616765206265666f726520646f696e672074686520776f726b2c207468656e20617574686f72697a65206f6e652064726166742050522c20657363616c617465206f72206661696c2e227d', '{}', '2056-11-14 08:36:22.223289+00'),
	('proj_01m816ccnczenbbnc2bb42180s', 'runner:cred_24v9a80m24jwc7pjeaqsdjdr3j', 'PATCH /v1/automation-runs/run_33wp7waghkhzwcmara3jpxva9y', 'run', '66fdeb5c227daf8648209dedb12ec874f965248b86252a44a6b23f76815893a5', 'cmd_01m816cd2tw3g0e57sneyk0kt8', true, 200, '\x7b2272756e5f6964223a2272756e5f3333777037776167686b687a77636d617261336a707876613979222c2270726f6a6563745f6964223a2270726f6a5f30316d38313663636e637a656e62626e63326262343231383073222c226175746f6d6174696f6e5f6964223a226865616c222c22706c6179626f6f6b223a7b226964223a226572726f722d746f2d64726166742d7072222c2276657273696f6e223a22342e302e30222c2274656d706c6174655f68617368223a2265363436323235346663383661623666663536623035383064616637613034353463623738646434316539623136333034623966353066383735623139623239227d2c22706f6c6963795f736861323536223a2265646433623664613431633539373062653162636636383236393239333535323562323263613735343861303366643834363430386137383364616131363865222c22747269676765725f726563656970745f6964223a227472635f376d637671397435656268676e6d70343534397a33686a686d66222c22636173655f6964223a22636173655f30316e706e793234786a667a6b6a74676a367a7a707478613065222c22636173655f7265766973696f6e223a312c22636c61696d5f6964223a22636c61696d5f337263363172707670386d7039746b646b3979643665647a3268222c2272756e6e65725f6964223a2272756e6e65725f30316d38313663637773677265376a76746e317a713274683231222c227068617365223a2272756e6e696e67222c22737461747573223a6e756c6c2c2273746174655f7265766973696f6e223a322c226c656173655f65706f6368223a312c226c656173655f657870697265735f6174223a323734313431373438322c22737461727465645f6174223a323734313431363538322c22646561646c696e655f6174223a323734313432303138322c22757064617465645f6174223a323734313431363538322c2266696e69736865645f6174223a6e756c6c2c226c696d697473223a7b226d61785f72756e735f7065725f646179223a313030302c226d61785f7072735f7065725f646179223a3130302c226d61785f617474656d7074735f7065725f636173655f7265766973696f6e223a32302c226d61785f7475726e735f7065725f72756e223a3530302c226d61785f72756e74696d655f7365636f6e6473223a333630302c226d61785f636f73745f7573645f7065725f72756e223a32352e307d2c2263686172676573223a7b227475726e73223a302c22636f73745f757364223a302e302c2272756e74696d655f7365636f6e6473223a307d2c22617070726f76616c73223a5b5d2c226772616e7473223a5b5d2c2270756c6c5f72657175657374223a6e756c6c2c2270726f76696465725f70726f6f66223a6e756c6c2c226175746f5f6d657267655f72656365697074223a6e756c6c2c226465706c6f79223a6e756c6c2c22766572696669636174696f6e223a6e756c6c2c227265706f72745f6964223a6e756c6c2c226f7574707574223a6e756c6c2c22726561736f6e223a6e756c6c2c2265787465726e616c5f666f6c6c6f775f757073223a5b5d2c226964656d706f74656e745f7265706c6179223a66616c73652c226e6578745f616374696f6e223a22436861726765207573616765206265666f726520646f696e672074686520776f726b3b20617574686f72697a65206f6e6520647261667420505220616e6420636f6e73756d6520697473206772616e74206f6e63652e227d', '{}', '2056-11-14 08:36:22.236983+00'),
	('', 'anonymous:anonymous', 'POST /v1/auth/device', 'cmd_01m816cdfqmg4rw2ge0kxh4dm1', '', 'cmd_01m816cdfqmg4rw2ge0kxh4dm1', false, NULL, NULL, '{}', '2056-11-14 08:36:22.649099+00'),
	('usr_73x4czd4ej43v1chxv2pj31wcw', 'key:key_01m816ccmy2ssdghayk5pe1x6g', 'POST /v1/projects', 'cmd_01m816cdg5y6fnx0zbzqs28c4m', '', 'cmd_01m816cdg5y6fnx0zbzqs28c4m', false, 201, '\x7b226c6f67735f75726c223a22687474703a2f2f3132372e302e302e313a33353133372f76312f6c6f67732f222c22616e616c79746963735f75726c223a22687474703a2f2f3132372e302e302e313a33353133372f76312f616e616c79746963732f222c226465706c6f79735f75726c223a22687474703a2f2f3132372e302e302e313a33353133372f76312f6465706c6f79732f222c226465706c6f79735f6e6f7465223a224465706c6f797320617265207265636f726465642066726f6d2043492c2077697468207468652044534e206f72207769746820612063695f6465706c6f792063726564656e7469616c3b206e657665722066726f6d20612062726f777365722e222c226964223a2270726f6a5f30316d38313663646735736a6a666b673438376d776237357a79222c2270726f6a6563745f6964223a2270726f6a5f30316d38313663646735736a6a666b673438376d776237357a79222c226e616d65223a22626567756e207768696c65206e6f626f6479206e756d62657273222c22726f6c65223a226f776e6572222c2264736e223a6e756c6c2c2264736e5f707265666978223a22736572766963655f64736e5f5253554255356f58222c2264736e5f7265636f76657261626c65223a747275652c22637265617465645f6174223a323734313431363538322c226e6578745f616374696f6e223a225468652044534e207761732073686f776e206f6e63653b207265616420697420616761696e207769746820474554202f76312f70726f6a656374732f7b70726f6a6563745f69647d2f64736e2e227d', '{}', '2056-11-14 08:36:22.664429+00');


--
-- Data for Name: ingest_flushers; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.ingest_flushers VALUES
	('flusher_01m816ccakqfba2hmf6vs49dq9', 8, 2741416582, 0);


--
-- Data for Name: installation; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.installation VALUES
	(true, 'a0c5fa458354295d5a518006a0cd5a6f74c54734c09cf42f72eb3cf6da85adb7');


--
-- Data for Name: key_uses; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.key_uses VALUES
	('usr_73x4czd4ej43v1chxv2pj31wcw', 'key_01m816ccmy2ssdghayk5pe1x6g', 2741416582);


--
-- Data for Name: leases; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.leases VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'lease_3236pb7a0sdnvca58nf9t0fz6n', 3, 'case_01npny24xjfzkjtgj6zzptxa0e', 'trc_7mcvq9t5ebhgnmp4549z3hjhmf', 'claim_3rc61rpvp8mp9tkdk9yd6edz2h', 'run_33wp7waghkhzwcmara3jpxva9y', '{"epoch": 1, "run_id": "run_33wp7waghkhzwcmara3jpxva9y", "status": "running", "case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "ordinal": 1, "attempts": {"heal": 1}, "claim_id": "claim_3rc61rpvp8mp9tkdk9yd6edz2h", "offered_at": 2741416582, "receipt_id": "trc_7mcvq9t5ebhgnmp4549z3hjhmf", "automation_id": "heal", "case_revision": 1, "attempts_revision": 1}');


--
-- Data for Name: ledgers; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.ledgers VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'led_7enzd8r00jnt9a9y06wffgkk5m', 1, 2741416582, '[2741416582]', '[]');


--
-- Data for Name: log_events_20261121; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: log_events_20261122; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: log_events_20261123; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: log_events_20261124; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: log_events_20261125; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: log_events_20261126; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: log_events_20261127; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: log_events_20261128; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: log_events_20261129; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: log_events_default; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.log_events_default VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 2741416581, 'log_01m816cct3a3ezpvtanedvj2f6', 'error', 'Declined.', 'production', NULL, NULL, NULL, '{"step": "payment", "failure_marker": "declined", "service_onboarding_proof": "sha256:c6a6d619536ed0bb7f7f80201aa4d079e63c62fe48b034212e430eb4ce15be41"}', '{}', 'case_6y0ckx7e6pay4pjcqpjx72crqq', '808c1d4029649048872b2b7fbdd9874e', 'v1:message', 'c6a6d619536ed0bb7f7f80201aa4d079e63c62fe48b034212e430eb4ce15be41'),
	('proj_01m816ccnczenbbnc2bb42180s', 2741416582, 'log_01m816cd0pzfeev8q8hf20r7vw', 'error', 'The order was lost.', 'production', NULL, NULL, NULL, '{}', '{"exception": {"type": "Lost", "frames": [{"file": "app.py", "in_app": true, "function": "pay"}]}}', 'case_01npny24xjfzkjtgj6zzptxa0e', '89065821b8004bdfc304c252cfbd1ce6', 'v1:type+frame+message', NULL),
	('proj_01m816ccnczenbbnc2bb42180s', 2741416582, 'log_01m816cdfx4yq85f1f3ywccjrd', 'error', 'The order was lost.', 'production', NULL, NULL, NULL, '{}', '{"exception": {"type": "Declined", "frames": [{"file": "app.py", "in_app": true, "function": "pay"}]}}', 'case_7efxtwzwdhhexjmkq2v404kvyr', '4990c9ce0fb036d67f34c854b1c1dc12', 'v1:type+frame+message', NULL);


--
-- Data for Name: log_index; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.log_index VALUES
	(1, 1),
	(2, 2),
	(3, 3),
	(4, 4),
	(5, 5),
	(6, 6),
	(7, 7),
	(8, 8),
	(9, 9),
	(10, 10),
	(11, 11),
	(12, 12),
	(13, 13),
	(14, 14),
	(15, 15),
	(16, 16),
	(17, 17),
	(18, 18),
	(19, 19),
	(20, 20),
	(21, 21),
	(22, 22),
	(23, 23),
	(24, 24),
	(25, 25),
	(26, 26),
	(27, 27),
	(28, 28),
	(29, 29),
	(30, 30),
	(31, 31);


--
-- Data for Name: log_state; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.log_state VALUES
	(true, 31);


--
-- Data for Name: memberships; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.memberships VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'mem_0z7408nzy0bdvcrq75t1j6jbwy', 1, 'usr_73x4czd4ej43v1chxv2pj31wcw', 'owner', 2741416581),
	('proj_01m816cdg5sjjfkg487mwb75zy', 'mem_76tkc157dps4msd1sek1qda125', 1, 'usr_73x4czd4ej43v1chxv2pj31wcw', 'owner', 2741416582);


--
-- Data for Name: onboarding; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.onboarding VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'onb_5faeg4tq4kaangxd94qxvwnm3x', 4, 'verified', 4, '{"deploy": {"targets": [{"file": "app.py", "anchor": "def main():"}], "sha_source": "git_head", "environment": "production"}, "failures": [{"marker": "declined", "context": ["step"], "meaning": "It did not.", "targets": [{"file": "app.py", "anchor": "def main():"}], "safe_live_proof": true, "provider_boundary": "server_provider"}], "milestones": [{"event": "paid", "meaning": "Money moved.", "targets": [{"file": "app.py", "anchor": "def main():"}], "properties": ["amount"], "provider_boundary": "server_provider"}], "plan_markdown": "A person enters, pays, and is served.", "source_snapshot": {"git_head_sha": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "source_fingerprint_sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "source_fingerprint_algorithm": "service-source-tree-sha256-v1"}, "business_question": "Who pays proj_01m816ccnczenbbnc2bb42180s?", "historical_evidence": null}', '1054fc95dd1ae98c44f39d9cafd6b524276b7b120b0cce8b33c786781130bbaf', 2741416582, 2741416581, 'ps_01m816ccr5eckj2nvwqghb7x6w', '{"git_head_sha": "dddddddddddddddddddddddddddddddddddddddd", "source_fingerprint_sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "source_fingerprint_algorithm": "service-source-tree-sha256-v1"}', 'c6a6d619536ed0bb7f7f80201aa4d079e63c62fe48b034212e430eb4ce15be41', 'a1e21e35361792dc0530725f5c6a559fe7a86813021b2c0de826c0276164bd05', 2741416581, 2741423781, '{"error": {"marker": "declined", "row_count": 1, "observed_context": ["step"], "required_context": ["step"], "provider_boundary": "server_provider"}, "deploy": {"row_count": 1, "environment": "production", "source_snapshot": {"git_head_sha": "dddddddddddddddddddddddddddddddddddddddd", "source_fingerprint_sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "source_fingerprint_algorithm": "service-source-tree-sha256-v1"}}, "analytics": [{"event": "paid", "row_count": 1, "provider_boundary": "server_provider", "observed_properties": ["amount"], "required_properties": ["amount"]}], "evidence_status": "source_verified", "source_verified_at": 2741416582}');


--
-- Data for Name: people; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.people VALUES
	('usr_73x4czd4ej43v1chxv2pj31wcw', 'usr_73x4czd4ej43v1chxv2pj31wcw', 1, 'bench', 'bench@example.invalid', false, NULL, false, 'active', 2741416581, NULL);


--
-- Data for Name: procrastinate_events; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.procrastinate_events VALUES
	(5, 3, 'deferred', '2026-11-22 08:36:23.039887+00');


--
-- Data for Name: procrastinate_jobs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.procrastinate_jobs VALUES
	(3, 'default', 'eventstore.forget_records', 0, NULL, NULL, '{"timestamp": 0}', 'todo', NULL, 0, false, NULL);


--
-- Data for Name: procrastinate_periodic_defers; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.procrastinate_periodic_defers VALUES
	(2, 'jobs.tidy', 1795336560, NULL, ''),
	(1, 'automation.sweep', 1795336560, NULL, 'automation.sweep');


--
-- Data for Name: procrastinate_workers; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: projects; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.projects VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'proj_01m816ccnczenbbnc2bb42180s', 1, 'shop', 'usr_73x4czd4ej43v1chxv2pj31wcw', false, 'active', '00b01c3e11e7c71bb1481e80b147c488d524c0d83559425e82c97f79d27e087f', 'service_dsn_aWjMrD6k', 2741416581, NULL),
	('proj_01m816cdg5sjjfkg487mwb75zy', 'proj_01m816cdg5sjjfkg487mwb75zy', 1, 'begun while nobody numbers', 'usr_73x4czd4ej43v1chxv2pj31wcw', false, 'active', 'cbb338b672817742bc847b511fb56c330629746a0b819e5379c52511dff9a639', 'service_dsn_RSUBU5oX', 2741416582, NULL);


--
-- Data for Name: provider_connections; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: provider_grants; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: rebuilds; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: schema_migrations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.schema_migrations VALUES
	('0001_clock', 'f1505387f8e9869666a7978dd5e04510093c22def453c33bff5bf834f86f801e', '', '2026-11-22 08:36:15.063094+00'),
	('0002_event_store', '027751d351961d880f5baef1bf58f398f965f8bc7edb2fcaff8938c3bc0b6b5a', '', '2026-11-22 08:36:15.102432+00'),
	('0010_accounts', '18b2e2425ea49ded808df4e0ef75bad1fe67bf14cba4ce4b1ff7aa8913ac04a6', '', '2026-11-22 08:36:15.150708+00'),
	('0020_onboarding', 'ea9f011ae2683ec3d3210d7d55c9c83b8a433c6ffff1539204fbbfcb1ae2d4dc', '', '2026-11-22 08:36:15.173928+00'),
	('0030_ingest', '35a2e4dc1fc33f8d33ba172c9811e1aa009b289f5a0ddc65bebd2f6fc931a179', '', '2026-11-22 08:36:15.395908+00'),
	('0040_contract', '354c27fccd2f0b60730ad36edc4b580fbc91abc624775bce6fe14feda3131100', '', '2026-11-22 08:36:15.48549+00'),
	('0050_automation', '155eff64bd78169e71bddc17a511f07866bed61b1e9a04a6daa1c55a7f73cb44', '', '2026-11-22 08:36:15.535551+00'),
	('0060_rebuild_fingerprint', '973f97b8c5eff246381b47c411303ec275684afa9f60cf9999391916098ed203', '', '2026-11-22 08:36:15.538606+00'),
	('0070_ingest_count', '1ece424a39b727bbae6dec79e6fc89de0070cef679c1e288a82376e8f61e463a', '', '2026-11-22 08:36:15.541452+00'),
	('0071_ingest_check', '151357644b476507db8eb8bd3a68ad8d43c890a7b8655bfc991ff3f338e59ff0', '', '2026-11-22 08:36:15.543067+00'),
	('0090_procrastinate', 'c70ec4b400a60ad9592787653aae5ae77ae41bf801d56b5bd2712751a07f2009', '3.10.0', '2026-11-22 08:36:15.574697+00');


--
-- Data for Name: service_clock; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.service_clock VALUES
	(true, 946080000);


--
-- Data for Name: sign_in_polls; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: sign_ins; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.sign_ins VALUES
	('dev_7z80q9batgnzb7kz8ycgfrw87w', 'dev_7z80q9batgnzb7kz8ycgfrw87w', 3, 'a150fc5860a63266f6b4c26a6e91e22aa3e6a4d3d3e1c722ebb6c879f880896b', NULL, 'redeemed', 2741416581, 2741417481, 'usr_73x4czd4ej43v1chxv2pj31wcw', true),
	('dev_59baf3e5hh1r5mkh248eqap8v9', 'dev_59baf3e5hh1r5mkh248eqap8v9', 1, '19a116e4ce633fbff06147b7fc5286af1cf2f9c00bd085582e9e49601b783b62', NULL, 'pending', 2741416582, 2741417482, NULL, false);


--
-- Data for Name: signal_maps; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.signal_maps VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'map_5faeg4tq4kaangxd94qxvwnm3x', 2, '{"deploy": {"targets": [{"file": "app.py", "anchor": "def main():"}], "sha_source": "git_head", "environment": "production"}, "failures": [{"marker": "declined", "context": ["step"], "meaning": "It did not.", "targets": [{"file": "app.py", "anchor": "def main():"}], "safe_live_proof": true, "provider_boundary": "server_provider"}], "milestones": [{"event": "paid", "meaning": "Money moved.", "targets": [{"file": "app.py", "anchor": "def main():"}], "properties": ["amount"], "provider_boundary": "server_provider"}], "plan_markdown": "A person enters, pays, and is served.", "source_snapshot": {"git_head_sha": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "source_fingerprint_sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "source_fingerprint_algorithm": "service-source-tree-sha256-v1"}, "business_question": "Who pays proj_01m816ccnczenbbnc2bb42180s?", "historical_evidence": null}', '1054fc95dd1ae98c44f39d9cafd6b524276b7b120b0cce8b33c786781130bbaf', 2741416581, '{"error": {"marker": "declined", "row_count": 1, "observed_context": ["step"], "required_context": ["step"], "provider_boundary": "server_provider"}, "deploy": {"row_count": 1, "environment": "production", "source_snapshot": {"git_head_sha": "dddddddddddddddddddddddddddddddddddddddd", "source_fingerprint_sha256": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "source_fingerprint_algorithm": "service-source-tree-sha256-v1"}}, "analytics": [{"event": "paid", "row_count": 1, "provider_boundary": "server_provider", "observed_properties": ["amount"], "required_properties": ["amount"]}], "evidence_status": "source_verified", "source_verified_at": 2741416582}');


--
-- Data for Name: snapshots; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: stream_heads; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.stream_heads VALUES
	('usr_73x4czd4ej43v1chxv2pj31wcw', 'usr_73x4czd4ej43v1chxv2pj31wcw', 'usr', 1, '\x81ddb09cab9bc23ff3a041ccd7ec7d02d23760d6ae97032616126fad3dd373a3'),
	('dev_7z80q9batgnzb7kz8ycgfrw87w', 'dev_7z80q9batgnzb7kz8ycgfrw87w', 'dev', 3, '\xc859e0497ca0dc6f743101f7ccb6fbc17da3bc633870865f528ac39912e29e67'),
	('usr_73x4czd4ej43v1chxv2pj31wcw', 'key_01m816ccmy2ssdghayk5pe1x6g', 'key', 1, '\x436f4860f9784b78e544b805d6b6b9f6474961ef038187e1b353195c756fb914'),
	('proj_01m816ccnczenbbnc2bb42180s', 'proj_01m816ccnczenbbnc2bb42180s', 'proj', 1, '\xde8b98bc1eb8f4e1f7cc11e0afc0489c449d9b55e27fd8d02ecb15f31a1000dd'),
	('proj_01m816ccnczenbbnc2bb42180s', 'mem_0z7408nzy0bdvcrq75t1j6jbwy', 'mem', 1, '\xee4af4ca0d56d584ea76a73a78c92048673ab8866f2c1f33cfa045d5bc0c7e1e'),
	('proj_01m816ccnczenbbnc2bb42180s', 'cred_2jw6ebw3wqtdnxretz1yk9zyb1', 'cred', 1, '\x5102d340a6b0293aa341b66f3aa0f3d5e58df9a1d3a036000562c7fd52d5e9e0'),
	('proj_01m816ccnczenbbnc2bb42180s', 'case_6y0ckx7e6pay4pjcqpjx72crqq', 'case', 1, '\xdaca7a9a3f2406ec07ef82c4160accac9ce312805d3ee2ca8d7f86d0e4d77a8b'),
	('proj_01m816ccnczenbbnc2bb42180s', 'dep_01m816cctyakx5sy7a5hp9nxtb', 'dep', 1, '\x8d7ce238094758917e9818bd4064986d44a0955c8a54f97c45df4f1567d2d4e9'),
	('proj_01m816ccnczenbbnc2bb42180s', 'onb_5faeg4tq4kaangxd94qxvwnm3x', 'onb', 4, '\xc9680f714f12fd1a7dc13104cdee3cb5189d283b114b6e555fba638792e0e434'),
	('proj_01m816ccnczenbbnc2bb42180s', 'map_5faeg4tq4kaangxd94qxvwnm3x', 'map', 2, '\x27810b7653a06375a2c01de30554950ac887f9789306acf756a17f6863adcbdb'),
	('proj_01m816ccnczenbbnc2bb42180s', 'cred_24v9a80m24jwc7pjeaqsdjdr3j', 'cred', 1, '\x5df304491756339081543fc1469f8dbe6239ff4d10acb31fd88b6048a4cb61aa'),
	('proj_01m816ccnczenbbnc2bb42180s', 'ctr_5faeg4tq4kaangxd94qxvwnm3x', 'ctr', 2, '\xda36287c2b7c0777e30373f01dd48dfdb1b6e31ba0daa6d06895556ecc0b53de'),
	('proj_01m816ccnczenbbnc2bb42180s', 'case_01npny24xjfzkjtgj6zzptxa0e', 'case', 1, '\xe146c233ce66863c4e6ef41dab28fde938cec9545452241689ad78751efb50c3'),
	('proj_01m816ccnczenbbnc2bb42180s', 'trc_7mcvq9t5ebhgnmp4549z3hjhmf', 'trc', 3, '\xbcf41e481ed4469a7cfc5deb017c59cf3e18329a4baaec37dc1b0b2a52560e13'),
	('proj_01m816ccnczenbbnc2bb42180s', 'lease_3236pb7a0sdnvca58nf9t0fz6n', 'lease', 3, '\x594f5fa81addbf2cf3ba141bbb10550eaddeab647115b3b83f411064c37e7270'),
	('proj_01m816ccnczenbbnc2bb42180s', 'claim_3rc61rpvp8mp9tkdk9yd6edz2h', 'claim', 2, '\x7d4899408ab4e49656a0e65f82c236fb69cac59f140e3ee741b2e1cee36a2347'),
	('proj_01m816ccnczenbbnc2bb42180s', 'led_7enzd8r00jnt9a9y06wffgkk5m', 'led', 1, '\x1c301ec704c97d6b4e359f7d1ebd1abfcd893ed361986333f12d475a121daf14'),
	('proj_01m816ccnczenbbnc2bb42180s', 'run_33wp7waghkhzwcmara3jpxva9y', 'run', 2, '\x0d6a846db63f52b7cc6d16f51eec08c3fcd5e86e6ee598d9bbf7dd824d20e518'),
	('dev_59baf3e5hh1r5mkh248eqap8v9', 'dev_59baf3e5hh1r5mkh248eqap8v9', 'dev', 1, '\xec8b5a0bb1752c0a0c3e7d003ec256e60b6ad595c57657e4ea0f2501a8aae5e0'),
	('proj_01m816ccnczenbbnc2bb42180s', 'case_7efxtwzwdhhexjmkq2v404kvyr', 'case', 1, '\x1b188db171893be7b3f01bf7d4b12404adc153dedbf48d193ac1503689d18788'),
	('proj_01m816cdg5sjjfkg487mwb75zy', 'proj_01m816cdg5sjjfkg487mwb75zy', 'proj', 1, '\xb34b7ed396c4b66c1a0af4a5565f44cd6e22a37d020577dd38609649b0858433'),
	('proj_01m816cdg5sjjfkg487mwb75zy', 'mem_76tkc157dps4msd1sek1qda125', 'mem', 1, '\xa8b7d4d45012be5dcabd9e0b396ccd040771b152ce59a1e13b703754cec49f2a');


--
-- Data for Name: suppressions; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: trigger_evidence; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.trigger_evidence VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'trc_7mcvq9t5ebhgnmp4549z3hjhmf', 'Lost: The order was lost.');


--
-- Data for Name: trigger_receipts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.trigger_receipts VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'trc_7mcvq9t5ebhgnmp4549z3hjhmf', 3, 'heal', 'unhandled_case', 'consumed', 'case_01npny24xjfzkjtgj6zzptxa0e', 'claim_3rc61rpvp8mp9tkdk9yd6edz2h', 'run_33wp7waghkhzwcmara3jpxva9y', 2741416582, 2741420182, '{"case": {"level": "error", "trust": "customer_provider", "status": "open", "case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "event_count": 1, "fingerprint": "89065821b8004bdfc304c252cfbd1ce6", "last_seen_at": 2741416582, "case_revision": 1, "first_seen_at": 2741416582}, "kind": "unhandled_case", "slot": null, "cause": null, "run_id": "run_33wp7waghkhzwcmara3jpxva9y", "status": "consumed", "claim_id": "claim_3rc61rpvp8mp9tkdk9yd6edz2h", "ended_at": 2741416582, "playbook": {"id": "error-to-draft-pr", "version": "4.0.0", "template_hash": "e6462254fc86ab6ff56b0580daf7a0454cb78dd41e9b16304b9f50f875b19b29"}, "issued_at": 2741416582, "expires_at": 2741420182, "generation": 2, "automation_id": "heal", "policy_sha256": "edd3b6da41c5970be1bcf682692935525b22ca7548a03fd846408a783daa168e", "snapshot_sha256": "b1f967256775f8a777837872a13094ae5377c9300dd663b0ea63dd469d7de19e", "contract_revision": 2, "final_materiality": {"checks": [{"check": "lifecycle_active", "passed": true, "observed": "open", "required": "open"}, {"check": "trusted_source", "passed": true, "observed": "customer_provider", "required": "customer_provider"}, {"check": "event_count", "passed": true, "observed": "1", "required": ">=1"}, {"check": "last_seen_present", "passed": true, "observed": "2741416582", "required": "present"}, {"check": "last_seen_not_future", "passed": true, "observed": "2741416582", "required": "<=2741416582"}, {"check": "last_seen_age", "passed": true, "observed": "0", "required": "<=86400"}], "inputs": {"trust": "customer_provider", "status": "open", "case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "revision": 1, "event_count": 1, "last_seen_at": 2741416582, "first_seen_at": 2741416582}, "passed": true, "decided_at": 2741416582, "thresholds": {"minimum_event_count": 1, "maximum_last_seen_age_seconds": 86400}, "age_seconds": 0}, "issued_materiality": {"checks": [{"check": "lifecycle_active", "passed": true, "observed": "open", "required": "open"}, {"check": "trusted_source", "passed": true, "observed": "customer_provider", "required": "customer_provider"}, {"check": "event_count", "passed": true, "observed": "1", "required": ">=1"}, {"check": "last_seen_present", "passed": true, "observed": "2741416582", "required": "present"}, {"check": "last_seen_not_future", "passed": true, "observed": "2741416582", "required": "<=2741416582"}, {"check": "last_seen_age", "passed": true, "observed": "0", "required": "<=86400"}], "inputs": {"trust": "customer_provider", "status": "open", "case_id": "case_01npny24xjfzkjtgj6zzptxa0e", "revision": 1, "event_count": 1, "last_seen_at": 2741416582, "first_seen_at": 2741416582}, "passed": true, "decided_at": 2741416582, "thresholds": {"minimum_event_count": 1, "maximum_last_seen_age_seconds": 86400}, "age_seconds": 0}}');


--
-- Data for Name: unsequenced; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.unsequenced VALUES
	(32),
	(33),
	(34),
	(35);


--
-- Data for Name: usage_days; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.usage_days VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'usr_73x4czd4ej43v1chxv2pj31wcw', 2741385600, 3, 1, 0, 0, 2741416582);


--
-- Data for Name: usage_deploys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.usage_deploys VALUES
	('proj_01m816ccnczenbbnc2bb42180s', 'dep_01m816cctyakx5sy7a5hp9nxtb', 'usr_73x4czd4ej43v1chxv2pj31wcw', 2741385600, 0);


--
-- Name: events_seq_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.events_seq_seq', 35, true);


--
-- Name: procrastinate_events_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.procrastinate_events_id_seq', 5, true);


--
-- Name: procrastinate_jobs_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.procrastinate_jobs_id_seq', 3, true);


--
-- Name: procrastinate_periodic_defers_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.procrastinate_periodic_defers_id_seq', 2, true);


--
-- Name: procrastinate_workers_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.procrastinate_workers_id_seq', 1, true);


--
-- Name: analytics_events analytics_events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events
    ADD CONSTRAINT analytics_events_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: analytics_events_20261121 analytics_events_20261121_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events_20261121
    ADD CONSTRAINT analytics_events_20261121_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: analytics_events_20261122 analytics_events_20261122_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events_20261122
    ADD CONSTRAINT analytics_events_20261122_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: analytics_events_20261123 analytics_events_20261123_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events_20261123
    ADD CONSTRAINT analytics_events_20261123_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: analytics_events_20261124 analytics_events_20261124_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events_20261124
    ADD CONSTRAINT analytics_events_20261124_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: analytics_events_20261125 analytics_events_20261125_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events_20261125
    ADD CONSTRAINT analytics_events_20261125_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: analytics_events_20261126 analytics_events_20261126_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events_20261126
    ADD CONSTRAINT analytics_events_20261126_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: analytics_events_20261127 analytics_events_20261127_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events_20261127
    ADD CONSTRAINT analytics_events_20261127_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: analytics_events_20261128 analytics_events_20261128_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events_20261128
    ADD CONSTRAINT analytics_events_20261128_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: analytics_events_20261129 analytics_events_20261129_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events_20261129
    ADD CONSTRAINT analytics_events_20261129_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: analytics_events_default analytics_events_default_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.analytics_events_default
    ADD CONSTRAINT analytics_events_default_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: api_keys api_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (project_id, id);


--
-- Name: approvals approvals_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.approvals
    ADD CONSTRAINT approvals_pkey PRIMARY KEY (project_id, id);


--
-- Name: automation_contracts automation_contracts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.automation_contracts
    ADD CONSTRAINT automation_contracts_pkey PRIMARY KEY (project_id, id);


--
-- Name: automation_runs automation_runs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.automation_runs
    ADD CONSTRAINT automation_runs_pkey PRIMARY KEY (project_id, id);


--
-- Name: case_stats case_stats_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.case_stats
    ADD CONSTRAINT case_stats_pkey PRIMARY KEY (project_id, id);


--
-- Name: case_users case_users_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.case_users
    ADD CONSTRAINT case_users_pkey PRIMARY KEY (project_id, case_id, user_id);


--
-- Name: cases cases_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cases
    ADD CONSTRAINT cases_pkey PRIMARY KEY (project_id, id);


--
-- Name: checkpoints checkpoints_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (name);


--
-- Name: claims claims_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.claims
    ADD CONSTRAINT claims_pkey PRIMARY KEY (project_id, id);


--
-- Name: credential_uses credential_uses_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.credential_uses
    ADD CONSTRAINT credential_uses_pkey PRIMARY KEY (project_id, id);


--
-- Name: credentials credentials_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_pkey PRIMARY KEY (project_id, id);


--
-- Name: deploy_notes deploy_notes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deploy_notes
    ADD CONSTRAINT deploy_notes_pkey PRIMARY KEY (project_id, id);


--
-- Name: deploys deploys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deploys
    ADD CONSTRAINT deploys_pkey PRIMARY KEY (project_id, id);


--
-- Name: dsn_copies dsn_copies_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.dsn_copies
    ADD CONSTRAINT dsn_copies_pkey PRIMARY KEY (project_id, id);


--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (project_id, stream_id, revision);


--
-- Name: grants grants_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.grants
    ADD CONSTRAINT grants_pkey PRIMARY KEY (project_id, id);


--
-- Name: idempotency idempotency_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (project_id, principal, operation, key);


--
-- Name: ingest_flushers ingest_flushers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ingest_flushers
    ADD CONSTRAINT ingest_flushers_pkey PRIMARY KEY (id);


--
-- Name: installation installation_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.installation
    ADD CONSTRAINT installation_pkey PRIMARY KEY (one);


--
-- Name: key_uses key_uses_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.key_uses
    ADD CONSTRAINT key_uses_pkey PRIMARY KEY (project_id, id);


--
-- Name: leases leases_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (project_id, id);


--
-- Name: ledgers ledgers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ledgers
    ADD CONSTRAINT ledgers_pkey PRIMARY KEY (project_id, id);


--
-- Name: log_events log_events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events
    ADD CONSTRAINT log_events_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: log_events_20261121 log_events_20261121_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events_20261121
    ADD CONSTRAINT log_events_20261121_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: log_events_20261122 log_events_20261122_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events_20261122
    ADD CONSTRAINT log_events_20261122_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: log_events_20261123 log_events_20261123_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events_20261123
    ADD CONSTRAINT log_events_20261123_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: log_events_20261124 log_events_20261124_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events_20261124
    ADD CONSTRAINT log_events_20261124_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: log_events_20261125 log_events_20261125_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events_20261125
    ADD CONSTRAINT log_events_20261125_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: log_events_20261126 log_events_20261126_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events_20261126
    ADD CONSTRAINT log_events_20261126_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: log_events_20261127 log_events_20261127_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events_20261127
    ADD CONSTRAINT log_events_20261127_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: log_events_20261128 log_events_20261128_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events_20261128
    ADD CONSTRAINT log_events_20261128_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: log_events_20261129 log_events_20261129_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events_20261129
    ADD CONSTRAINT log_events_20261129_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: log_events_default log_events_default_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_events_default
    ADD CONSTRAINT log_events_default_pkey PRIMARY KEY (project_id, received_at, id);


--
-- Name: log_index log_index_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_index
    ADD CONSTRAINT log_index_pkey PRIMARY KEY ("position");


--
-- Name: log_state log_state_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.log_state
    ADD CONSTRAINT log_state_pkey PRIMARY KEY (one);


--
-- Name: memberships memberships_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.memberships
    ADD CONSTRAINT memberships_pkey PRIMARY KEY (project_id, id);


--
-- Name: onboarding onboarding_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.onboarding
    ADD CONSTRAINT onboarding_pkey PRIMARY KEY (project_id, id);


--
-- Name: people people_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.people
    ADD CONSTRAINT people_pkey PRIMARY KEY (project_id, id);


--
-- Name: procrastinate_events procrastinate_events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.procrastinate_events
    ADD CONSTRAINT procrastinate_events_pkey PRIMARY KEY (id);


--
-- Name: procrastinate_jobs procrastinate_jobs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.procrastinate_jobs
    ADD CONSTRAINT procrastinate_jobs_pkey PRIMARY KEY (id);


--
-- Name: procrastinate_periodic_defers procrastinate_periodic_defers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.procrastinate_periodic_defers
    ADD CONSTRAINT procrastinate_periodic_defers_pkey PRIMARY KEY (id);


--
-- Name: procrastinate_periodic_defers procrastinate_periodic_defers_unique; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.procrastinate_periodic_defers
    ADD CONSTRAINT procrastinate_periodic_defers_unique UNIQUE (task_name, periodic_id, defer_timestamp);


--
-- Name: procrastinate_workers procrastinate_workers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.procrastinate_workers
    ADD CONSTRAINT procrastinate_workers_pkey PRIMARY KEY (id);


--
-- Name: projects projects_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.projects
    ADD CONSTRAINT projects_pkey PRIMARY KEY (project_id, id);


--
-- Name: provider_connections provider_connections_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.provider_connections
    ADD CONSTRAINT provider_connections_pkey PRIMARY KEY (project_id, id);


--
-- Name: provider_grants provider_grants_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.provider_grants
    ADD CONSTRAINT provider_grants_pkey PRIMARY KEY (project_id, id);


--
-- Name: rebuilds rebuilds_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.rebuilds
    ADD CONSTRAINT rebuilds_pkey PRIMARY KEY (name);


--
-- Name: schema_migrations schema_migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (name);


--
-- Name: service_clock service_clock_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.service_clock
    ADD CONSTRAINT service_clock_pkey PRIMARY KEY (one);


--
-- Name: sign_in_polls sign_in_polls_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sign_in_polls
    ADD CONSTRAINT sign_in_polls_pkey PRIMARY KEY (project_id, id);


--
-- Name: sign_ins sign_ins_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sign_ins
    ADD CONSTRAINT sign_ins_pkey PRIMARY KEY (project_id, id);


--
-- Name: signal_maps signal_maps_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.signal_maps
    ADD CONSTRAINT signal_maps_pkey PRIMARY KEY (project_id, id);


--
-- Name: snapshots snapshots_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (project_id, stream_id);


--
-- Name: stream_heads stream_heads_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.stream_heads
    ADD CONSTRAINT stream_heads_pkey PRIMARY KEY (project_id, stream_id);


--
-- Name: suppressions suppressions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.suppressions
    ADD CONSTRAINT suppressions_pkey PRIMARY KEY (project_id, id);


--
-- Name: trigger_evidence trigger_evidence_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.trigger_evidence
    ADD CONSTRAINT trigger_evidence_pkey PRIMARY KEY (project_id, id);


--
-- Name: trigger_receipts trigger_receipts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.trigger_receipts
    ADD CONSTRAINT trigger_receipts_pkey PRIMARY KEY (project_id, id);


--
-- Name: unsequenced unsequenced_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.unsequenced
    ADD CONSTRAINT unsequenced_pkey PRIMARY KEY (seq);


--
-- Name: usage_days usage_days_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.usage_days
    ADD CONSTRAINT usage_days_pkey PRIMARY KEY (project_id, account_id, day);


--
-- Name: usage_deploys usage_deploys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.usage_deploys
    ADD CONSTRAINT usage_deploys_pkey PRIMARY KEY (project_id, id);


--
-- Name: analytics_events_person; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_person ON ONLY public.analytics_events USING btree (project_id, distinct_id, received_at);


--
-- Name: analytics_events_20261121_project_id_distinct_id_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261121_project_id_distinct_id_received_a_idx ON public.analytics_events_20261121 USING btree (project_id, distinct_id, received_at);


--
-- Name: analytics_events_event; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_event ON ONLY public.analytics_events USING btree (project_id, event, received_at);


--
-- Name: analytics_events_20261121_project_id_event_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261121_project_id_event_received_at_idx ON public.analytics_events_20261121 USING btree (project_id, event, received_at);


--
-- Name: analytics_events_marker; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_marker ON ONLY public.analytics_events USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: analytics_events_20261121_project_id_marker_hash_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261121_project_id_marker_hash_received_a_idx ON public.analytics_events_20261121 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: analytics_events_20261122_project_id_distinct_id_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261122_project_id_distinct_id_received_a_idx ON public.analytics_events_20261122 USING btree (project_id, distinct_id, received_at);


--
-- Name: analytics_events_20261122_project_id_event_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261122_project_id_event_received_at_idx ON public.analytics_events_20261122 USING btree (project_id, event, received_at);


--
-- Name: analytics_events_20261122_project_id_marker_hash_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261122_project_id_marker_hash_received_a_idx ON public.analytics_events_20261122 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: analytics_events_20261123_project_id_distinct_id_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261123_project_id_distinct_id_received_a_idx ON public.analytics_events_20261123 USING btree (project_id, distinct_id, received_at);


--
-- Name: analytics_events_20261123_project_id_event_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261123_project_id_event_received_at_idx ON public.analytics_events_20261123 USING btree (project_id, event, received_at);


--
-- Name: analytics_events_20261123_project_id_marker_hash_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261123_project_id_marker_hash_received_a_idx ON public.analytics_events_20261123 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: analytics_events_20261124_project_id_distinct_id_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261124_project_id_distinct_id_received_a_idx ON public.analytics_events_20261124 USING btree (project_id, distinct_id, received_at);


--
-- Name: analytics_events_20261124_project_id_event_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261124_project_id_event_received_at_idx ON public.analytics_events_20261124 USING btree (project_id, event, received_at);


--
-- Name: analytics_events_20261124_project_id_marker_hash_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261124_project_id_marker_hash_received_a_idx ON public.analytics_events_20261124 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: analytics_events_20261125_project_id_distinct_id_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261125_project_id_distinct_id_received_a_idx ON public.analytics_events_20261125 USING btree (project_id, distinct_id, received_at);


--
-- Name: analytics_events_20261125_project_id_event_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261125_project_id_event_received_at_idx ON public.analytics_events_20261125 USING btree (project_id, event, received_at);


--
-- Name: analytics_events_20261125_project_id_marker_hash_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261125_project_id_marker_hash_received_a_idx ON public.analytics_events_20261125 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: analytics_events_20261126_project_id_distinct_id_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261126_project_id_distinct_id_received_a_idx ON public.analytics_events_20261126 USING btree (project_id, distinct_id, received_at);


--
-- Name: analytics_events_20261126_project_id_event_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261126_project_id_event_received_at_idx ON public.analytics_events_20261126 USING btree (project_id, event, received_at);


--
-- Name: analytics_events_20261126_project_id_marker_hash_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261126_project_id_marker_hash_received_a_idx ON public.analytics_events_20261126 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: analytics_events_20261127_project_id_distinct_id_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261127_project_id_distinct_id_received_a_idx ON public.analytics_events_20261127 USING btree (project_id, distinct_id, received_at);


--
-- Name: analytics_events_20261127_project_id_event_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261127_project_id_event_received_at_idx ON public.analytics_events_20261127 USING btree (project_id, event, received_at);


--
-- Name: analytics_events_20261127_project_id_marker_hash_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261127_project_id_marker_hash_received_a_idx ON public.analytics_events_20261127 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: analytics_events_20261128_project_id_distinct_id_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261128_project_id_distinct_id_received_a_idx ON public.analytics_events_20261128 USING btree (project_id, distinct_id, received_at);


--
-- Name: analytics_events_20261128_project_id_event_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261128_project_id_event_received_at_idx ON public.analytics_events_20261128 USING btree (project_id, event, received_at);


--
-- Name: analytics_events_20261128_project_id_marker_hash_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261128_project_id_marker_hash_received_a_idx ON public.analytics_events_20261128 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: analytics_events_20261129_project_id_distinct_id_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261129_project_id_distinct_id_received_a_idx ON public.analytics_events_20261129 USING btree (project_id, distinct_id, received_at);


--
-- Name: analytics_events_20261129_project_id_event_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261129_project_id_event_received_at_idx ON public.analytics_events_20261129 USING btree (project_id, event, received_at);


--
-- Name: analytics_events_20261129_project_id_marker_hash_received_a_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_20261129_project_id_marker_hash_received_a_idx ON public.analytics_events_20261129 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: analytics_events_default_project_id_distinct_id_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_default_project_id_distinct_id_received_at_idx ON public.analytics_events_default USING btree (project_id, distinct_id, received_at);


--
-- Name: analytics_events_default_project_id_event_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_default_project_id_event_received_at_idx ON public.analytics_events_default USING btree (project_id, event, received_at);


--
-- Name: analytics_events_default_project_id_marker_hash_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX analytics_events_default_project_id_marker_hash_received_at_idx ON public.analytics_events_default USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: api_keys_hash; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX api_keys_hash ON public.api_keys USING btree (key_hash);


--
-- Name: approvals_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX approvals_id ON public.approvals USING btree (id);


--
-- Name: approvals_newest; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX approvals_newest ON public.approvals USING btree (project_id, requested_at, id);


--
-- Name: approvals_of_run; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX approvals_of_run ON public.approvals USING btree (project_id, run_id);


--
-- Name: approvals_pending; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX approvals_pending ON public.approvals USING btree (expires_at, id) WHERE (status = 'pending'::text);


--
-- Name: automation_runs_commit; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX automation_runs_commit ON public.automation_runs USING btree (project_id, proven_commit) WHERE (proven_commit IS NOT NULL);


--
-- Name: automation_runs_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX automation_runs_id ON public.automation_runs USING btree (id);


--
-- Name: automation_runs_live; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX automation_runs_live ON public.automation_runs USING btree (deadline_at, id) WHERE live;


--
-- Name: automation_runs_newest; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX automation_runs_newest ON public.automation_runs USING btree (project_id, started_at, id);


--
-- Name: case_users_user; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX case_users_user ON public.case_users USING btree (project_id, user_id);


--
-- Name: cases_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX cases_id ON public.cases USING btree (id);


--
-- Name: cases_newest; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX cases_newest ON public.cases USING btree (project_id, opened_at, id);


--
-- Name: cases_open; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX cases_open ON public.cases USING btree (project_id) WHERE (status = 'open'::text);


--
-- Name: claims_active; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX claims_active ON public.claims USING btree (lease_expires_at, id) WHERE (status = 'active'::text);


--
-- Name: claims_of_case; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX claims_of_case ON public.claims USING btree (project_id, case_id);


--
-- Name: credentials_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX credentials_id ON public.credentials USING btree (id);


--
-- Name: credentials_secret; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX credentials_secret ON public.credentials USING btree (secret_hash);


--
-- Name: deploys_newest; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX deploys_newest ON public.deploys USING btree (project_id, recorded_at, id);


--
-- Name: events_seq; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX events_seq ON public.events USING btree (seq);


--
-- Name: grants_of_run; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX grants_of_run ON public.grants USING btree (project_id, run_id);


--
-- Name: grants_open; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX grants_open ON public.grants USING btree (expires_at, id) WHERE (status = ANY (ARRAY['authorized'::text, 'consumed'::text]));


--
-- Name: idempotency_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idempotency_age ON public.idempotency USING btree (created_at) WHERE (NOT client_key);


--
-- Name: idempotency_client_age; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idempotency_client_age ON public.idempotency USING btree (created_at) WHERE client_key;


--
-- Name: idx_procrastinate_jobs_worker_not_null; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_procrastinate_jobs_worker_not_null ON public.procrastinate_jobs USING btree (worker_id) WHERE ((worker_id IS NOT NULL) AND (status = 'doing'::public.procrastinate_job_status));


--
-- Name: idx_procrastinate_workers_last_heartbeat; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idx_procrastinate_workers_last_heartbeat ON public.procrastinate_workers USING btree (last_heartbeat);


--
-- Name: leases_of_case; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX leases_of_case ON public.leases USING btree (project_id, case_id);


--
-- Name: log_events_case; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_case ON ONLY public.log_events USING btree (project_id, case_id, received_at, id) WHERE (case_id IS NOT NULL);


--
-- Name: log_events_20261121_project_id_case_id_received_at_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261121_project_id_case_id_received_at_id_idx ON public.log_events_20261121 USING btree (project_id, case_id, received_at, id) WHERE (case_id IS NOT NULL);


--
-- Name: log_events_marker; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_marker ON ONLY public.log_events USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: log_events_20261121_project_id_marker_hash_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261121_project_id_marker_hash_received_at_idx ON public.log_events_20261121 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: log_events_user; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_user ON ONLY public.log_events USING btree (project_id, user_id, received_at) WHERE (user_id IS NOT NULL);


--
-- Name: log_events_20261121_project_id_user_id_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261121_project_id_user_id_received_at_idx ON public.log_events_20261121 USING btree (project_id, user_id, received_at) WHERE (user_id IS NOT NULL);


--
-- Name: log_events_20261122_project_id_case_id_received_at_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261122_project_id_case_id_received_at_id_idx ON public.log_events_20261122 USING btree (project_id, case_id, received_at, id) WHERE (case_id IS NOT NULL);


--
-- Name: log_events_20261122_project_id_marker_hash_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261122_project_id_marker_hash_received_at_idx ON public.log_events_20261122 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: log_events_20261122_project_id_user_id_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261122_project_id_user_id_received_at_idx ON public.log_events_20261122 USING btree (project_id, user_id, received_at) WHERE (user_id IS NOT NULL);


--
-- Name: log_events_20261123_project_id_case_id_received_at_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261123_project_id_case_id_received_at_id_idx ON public.log_events_20261123 USING btree (project_id, case_id, received_at, id) WHERE (case_id IS NOT NULL);


--
-- Name: log_events_20261123_project_id_marker_hash_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261123_project_id_marker_hash_received_at_idx ON public.log_events_20261123 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: log_events_20261123_project_id_user_id_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261123_project_id_user_id_received_at_idx ON public.log_events_20261123 USING btree (project_id, user_id, received_at) WHERE (user_id IS NOT NULL);


--
-- Name: log_events_20261124_project_id_case_id_received_at_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261124_project_id_case_id_received_at_id_idx ON public.log_events_20261124 USING btree (project_id, case_id, received_at, id) WHERE (case_id IS NOT NULL);


--
-- Name: log_events_20261124_project_id_marker_hash_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261124_project_id_marker_hash_received_at_idx ON public.log_events_20261124 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: log_events_20261124_project_id_user_id_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261124_project_id_user_id_received_at_idx ON public.log_events_20261124 USING btree (project_id, user_id, received_at) WHERE (user_id IS NOT NULL);


--
-- Name: log_events_20261125_project_id_case_id_received_at_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261125_project_id_case_id_received_at_id_idx ON public.log_events_20261125 USING btree (project_id, case_id, received_at, id) WHERE (case_id IS NOT NULL);


--
-- Name: log_events_20261125_project_id_marker_hash_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261125_project_id_marker_hash_received_at_idx ON public.log_events_20261125 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: log_events_20261125_project_id_user_id_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261125_project_id_user_id_received_at_idx ON public.log_events_20261125 USING btree (project_id, user_id, received_at) WHERE (user_id IS NOT NULL);


--
-- Name: log_events_20261126_project_id_case_id_received_at_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261126_project_id_case_id_received_at_id_idx ON public.log_events_20261126 USING btree (project_id, case_id, received_at, id) WHERE (case_id IS NOT NULL);


--
-- Name: log_events_20261126_project_id_marker_hash_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261126_project_id_marker_hash_received_at_idx ON public.log_events_20261126 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: log_events_20261126_project_id_user_id_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261126_project_id_user_id_received_at_idx ON public.log_events_20261126 USING btree (project_id, user_id, received_at) WHERE (user_id IS NOT NULL);


--
-- Name: log_events_20261127_project_id_case_id_received_at_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261127_project_id_case_id_received_at_id_idx ON public.log_events_20261127 USING btree (project_id, case_id, received_at, id) WHERE (case_id IS NOT NULL);


--
-- Name: log_events_20261127_project_id_marker_hash_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261127_project_id_marker_hash_received_at_idx ON public.log_events_20261127 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: log_events_20261127_project_id_user_id_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261127_project_id_user_id_received_at_idx ON public.log_events_20261127 USING btree (project_id, user_id, received_at) WHERE (user_id IS NOT NULL);


--
-- Name: log_events_20261128_project_id_case_id_received_at_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261128_project_id_case_id_received_at_id_idx ON public.log_events_20261128 USING btree (project_id, case_id, received_at, id) WHERE (case_id IS NOT NULL);


--
-- Name: log_events_20261128_project_id_marker_hash_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261128_project_id_marker_hash_received_at_idx ON public.log_events_20261128 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: log_events_20261128_project_id_user_id_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261128_project_id_user_id_received_at_idx ON public.log_events_20261128 USING btree (project_id, user_id, received_at) WHERE (user_id IS NOT NULL);


--
-- Name: log_events_20261129_project_id_case_id_received_at_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261129_project_id_case_id_received_at_id_idx ON public.log_events_20261129 USING btree (project_id, case_id, received_at, id) WHERE (case_id IS NOT NULL);


--
-- Name: log_events_20261129_project_id_marker_hash_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261129_project_id_marker_hash_received_at_idx ON public.log_events_20261129 USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: log_events_20261129_project_id_user_id_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_20261129_project_id_user_id_received_at_idx ON public.log_events_20261129 USING btree (project_id, user_id, received_at) WHERE (user_id IS NOT NULL);


--
-- Name: log_events_default_project_id_case_id_received_at_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_default_project_id_case_id_received_at_id_idx ON public.log_events_default USING btree (project_id, case_id, received_at, id) WHERE (case_id IS NOT NULL);


--
-- Name: log_events_default_project_id_marker_hash_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_default_project_id_marker_hash_received_at_idx ON public.log_events_default USING btree (project_id, marker_hash, received_at) WHERE (marker_hash IS NOT NULL);


--
-- Name: log_events_default_project_id_user_id_received_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_events_default_project_id_user_id_received_at_idx ON public.log_events_default USING btree (project_id, user_id, received_at) WHERE (user_id IS NOT NULL);


--
-- Name: log_index_seq; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX log_index_seq ON public.log_index USING btree (seq);


--
-- Name: memberships_user; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX memberships_user ON public.memberships USING btree (user_id);


--
-- Name: onboarding_ci_marker; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX onboarding_ci_marker ON public.onboarding USING btree (ci_marker_sha256) WHERE (ci_marker_sha256 IS NOT NULL);


--
-- Name: onboarding_runtime_marker; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX onboarding_runtime_marker ON public.onboarding USING btree (runtime_marker_sha256) WHERE (runtime_marker_sha256 IS NOT NULL);


--
-- Name: people_email; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX people_email ON public.people USING btree (email);


--
-- Name: procrastinate_events_job_id_fkey_v1; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX procrastinate_events_job_id_fkey_v1 ON public.procrastinate_events USING btree (job_id);


--
-- Name: procrastinate_jobs_id_lock_idx_v1; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX procrastinate_jobs_id_lock_idx_v1 ON public.procrastinate_jobs USING btree (id, lock) WHERE (status = ANY (ARRAY['todo'::public.procrastinate_job_status, 'doing'::public.procrastinate_job_status]));


--
-- Name: procrastinate_jobs_lock_idx_v1; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX procrastinate_jobs_lock_idx_v1 ON public.procrastinate_jobs USING btree (lock) WHERE (status = 'doing'::public.procrastinate_job_status);


--
-- Name: procrastinate_jobs_priority_idx_v1; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX procrastinate_jobs_priority_idx_v1 ON public.procrastinate_jobs USING btree (priority DESC, id) WHERE (status = 'todo'::public.procrastinate_job_status);


--
-- Name: procrastinate_jobs_queue_name_idx_v1; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX procrastinate_jobs_queue_name_idx_v1 ON public.procrastinate_jobs USING btree (queue_name);


--
-- Name: procrastinate_jobs_queueing_lock_idx_v1; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX procrastinate_jobs_queueing_lock_idx_v1 ON public.procrastinate_jobs USING btree (queueing_lock) WHERE (status = 'todo'::public.procrastinate_job_status);


--
-- Name: procrastinate_periodic_defers_job_id_fkey_v1; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX procrastinate_periodic_defers_job_id_fkey_v1 ON public.procrastinate_periodic_defers USING btree (job_id);


--
-- Name: projects_dsn; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX projects_dsn ON public.projects USING btree (dsn_hash);


--
-- Name: provider_connections_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX provider_connections_id ON public.provider_connections USING btree (id);


--
-- Name: sign_ins_device_code; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX sign_ins_device_code ON public.sign_ins USING btree (device_code_hash);


--
-- Name: sign_ins_expiry; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX sign_ins_expiry ON public.sign_ins USING btree (expires_at);


--
-- Name: trigger_receipts_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX trigger_receipts_id ON public.trigger_receipts USING btree (id);


--
-- Name: trigger_receipts_newest; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX trigger_receipts_newest ON public.trigger_receipts USING btree (project_id, issued_at, id);


--
-- Name: trigger_receipts_open; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX trigger_receipts_open ON public.trigger_receipts USING btree (expires_at, id) WHERE (status = ANY (ARRAY['issued'::text, 'claimed'::text]));


--
-- Name: trigger_receipts_waiting; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX trigger_receipts_waiting ON public.trigger_receipts USING btree (project_id, automation_id) WHERE (status = ANY (ARRAY['issued'::text, 'claimed'::text]));


--
-- Name: usage_days_account; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX usage_days_account ON public.usage_days USING btree (account_id, day);


--
-- Name: usage_deploys_account; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX usage_deploys_account ON public.usage_deploys USING btree (account_id, day);


--
-- Name: analytics_events_20261121_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_pkey ATTACH PARTITION public.analytics_events_20261121_pkey;


--
-- Name: analytics_events_20261121_project_id_distinct_id_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_person ATTACH PARTITION public.analytics_events_20261121_project_id_distinct_id_received_a_idx;


--
-- Name: analytics_events_20261121_project_id_event_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_event ATTACH PARTITION public.analytics_events_20261121_project_id_event_received_at_idx;


--
-- Name: analytics_events_20261121_project_id_marker_hash_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_marker ATTACH PARTITION public.analytics_events_20261121_project_id_marker_hash_received_a_idx;


--
-- Name: analytics_events_20261122_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_pkey ATTACH PARTITION public.analytics_events_20261122_pkey;


--
-- Name: analytics_events_20261122_project_id_distinct_id_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_person ATTACH PARTITION public.analytics_events_20261122_project_id_distinct_id_received_a_idx;


--
-- Name: analytics_events_20261122_project_id_event_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_event ATTACH PARTITION public.analytics_events_20261122_project_id_event_received_at_idx;


--
-- Name: analytics_events_20261122_project_id_marker_hash_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_marker ATTACH PARTITION public.analytics_events_20261122_project_id_marker_hash_received_a_idx;


--
-- Name: analytics_events_20261123_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_pkey ATTACH PARTITION public.analytics_events_20261123_pkey;


--
-- Name: analytics_events_20261123_project_id_distinct_id_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_person ATTACH PARTITION public.analytics_events_20261123_project_id_distinct_id_received_a_idx;


--
-- Name: analytics_events_20261123_project_id_event_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_event ATTACH PARTITION public.analytics_events_20261123_project_id_event_received_at_idx;


--
-- Name: analytics_events_20261123_project_id_marker_hash_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_marker ATTACH PARTITION public.analytics_events_20261123_project_id_marker_hash_received_a_idx;


--
-- Name: analytics_events_20261124_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_pkey ATTACH PARTITION public.analytics_events_20261124_pkey;


--
-- Name: analytics_events_20261124_project_id_distinct_id_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_person ATTACH PARTITION public.analytics_events_20261124_project_id_distinct_id_received_a_idx;


--
-- Name: analytics_events_20261124_project_id_event_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_event ATTACH PARTITION public.analytics_events_20261124_project_id_event_received_at_idx;


--
-- Name: analytics_events_20261124_project_id_marker_hash_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_marker ATTACH PARTITION public.analytics_events_20261124_project_id_marker_hash_received_a_idx;


--
-- Name: analytics_events_20261125_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_pkey ATTACH PARTITION public.analytics_events_20261125_pkey;


--
-- Name: analytics_events_20261125_project_id_distinct_id_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_person ATTACH PARTITION public.analytics_events_20261125_project_id_distinct_id_received_a_idx;


--
-- Name: analytics_events_20261125_project_id_event_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_event ATTACH PARTITION public.analytics_events_20261125_project_id_event_received_at_idx;


--
-- Name: analytics_events_20261125_project_id_marker_hash_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_marker ATTACH PARTITION public.analytics_events_20261125_project_id_marker_hash_received_a_idx;


--
-- Name: analytics_events_20261126_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_pkey ATTACH PARTITION public.analytics_events_20261126_pkey;


--
-- Name: analytics_events_20261126_project_id_distinct_id_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_person ATTACH PARTITION public.analytics_events_20261126_project_id_distinct_id_received_a_idx;


--
-- Name: analytics_events_20261126_project_id_event_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_event ATTACH PARTITION public.analytics_events_20261126_project_id_event_received_at_idx;


--
-- Name: analytics_events_20261126_project_id_marker_hash_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_marker ATTACH PARTITION public.analytics_events_20261126_project_id_marker_hash_received_a_idx;


--
-- Name: analytics_events_20261127_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_pkey ATTACH PARTITION public.analytics_events_20261127_pkey;


--
-- Name: analytics_events_20261127_project_id_distinct_id_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_person ATTACH PARTITION public.analytics_events_20261127_project_id_distinct_id_received_a_idx;


--
-- Name: analytics_events_20261127_project_id_event_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_event ATTACH PARTITION public.analytics_events_20261127_project_id_event_received_at_idx;


--
-- Name: analytics_events_20261127_project_id_marker_hash_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_marker ATTACH PARTITION public.analytics_events_20261127_project_id_marker_hash_received_a_idx;


--
-- Name: analytics_events_20261128_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_pkey ATTACH PARTITION public.analytics_events_20261128_pkey;


--
-- Name: analytics_events_20261128_project_id_distinct_id_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_person ATTACH PARTITION public.analytics_events_20261128_project_id_distinct_id_received_a_idx;


--
-- Name: analytics_events_20261128_project_id_event_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_event ATTACH PARTITION public.analytics_events_20261128_project_id_event_received_at_idx;


--
-- Name: analytics_events_20261128_project_id_marker_hash_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_marker ATTACH PARTITION public.analytics_events_20261128_project_id_marker_hash_received_a_idx;


--
-- Name: analytics_events_20261129_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_pkey ATTACH PARTITION public.analytics_events_20261129_pkey;


--
-- Name: analytics_events_20261129_project_id_distinct_id_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_person ATTACH PARTITION public.analytics_events_20261129_project_id_distinct_id_received_a_idx;


--
-- Name: analytics_events_20261129_project_id_event_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_event ATTACH PARTITION public.analytics_events_20261129_project_id_event_received_at_idx;


--
-- Name: analytics_events_20261129_project_id_marker_hash_received_a_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_marker ATTACH PARTITION public.analytics_events_20261129_project_id_marker_hash_received_a_idx;


--
-- Name: analytics_events_default_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_pkey ATTACH PARTITION public.analytics_events_default_pkey;


--
-- Name: analytics_events_default_project_id_distinct_id_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_person ATTACH PARTITION public.analytics_events_default_project_id_distinct_id_received_at_idx;


--
-- Name: analytics_events_default_project_id_event_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_event ATTACH PARTITION public.analytics_events_default_project_id_event_received_at_idx;


--
-- Name: analytics_events_default_project_id_marker_hash_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.analytics_events_marker ATTACH PARTITION public.analytics_events_default_project_id_marker_hash_received_at_idx;


--
-- Name: log_events_20261121_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_pkey ATTACH PARTITION public.log_events_20261121_pkey;


--
-- Name: log_events_20261121_project_id_case_id_received_at_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_case ATTACH PARTITION public.log_events_20261121_project_id_case_id_received_at_id_idx;


--
-- Name: log_events_20261121_project_id_marker_hash_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_marker ATTACH PARTITION public.log_events_20261121_project_id_marker_hash_received_at_idx;


--
-- Name: log_events_20261121_project_id_user_id_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_user ATTACH PARTITION public.log_events_20261121_project_id_user_id_received_at_idx;


--
-- Name: log_events_20261122_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_pkey ATTACH PARTITION public.log_events_20261122_pkey;


--
-- Name: log_events_20261122_project_id_case_id_received_at_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_case ATTACH PARTITION public.log_events_20261122_project_id_case_id_received_at_id_idx;


--
-- Name: log_events_20261122_project_id_marker_hash_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_marker ATTACH PARTITION public.log_events_20261122_project_id_marker_hash_received_at_idx;


--
-- Name: log_events_20261122_project_id_user_id_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_user ATTACH PARTITION public.log_events_20261122_project_id_user_id_received_at_idx;


--
-- Name: log_events_20261123_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_pkey ATTACH PARTITION public.log_events_20261123_pkey;


--
-- Name: log_events_20261123_project_id_case_id_received_at_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_case ATTACH PARTITION public.log_events_20261123_project_id_case_id_received_at_id_idx;


--
-- Name: log_events_20261123_project_id_marker_hash_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_marker ATTACH PARTITION public.log_events_20261123_project_id_marker_hash_received_at_idx;


--
-- Name: log_events_20261123_project_id_user_id_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_user ATTACH PARTITION public.log_events_20261123_project_id_user_id_received_at_idx;


--
-- Name: log_events_20261124_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_pkey ATTACH PARTITION public.log_events_20261124_pkey;


--
-- Name: log_events_20261124_project_id_case_id_received_at_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_case ATTACH PARTITION public.log_events_20261124_project_id_case_id_received_at_id_idx;


--
-- Name: log_events_20261124_project_id_marker_hash_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_marker ATTACH PARTITION public.log_events_20261124_project_id_marker_hash_received_at_idx;


--
-- Name: log_events_20261124_project_id_user_id_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_user ATTACH PARTITION public.log_events_20261124_project_id_user_id_received_at_idx;


--
-- Name: log_events_20261125_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_pkey ATTACH PARTITION public.log_events_20261125_pkey;


--
-- Name: log_events_20261125_project_id_case_id_received_at_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_case ATTACH PARTITION public.log_events_20261125_project_id_case_id_received_at_id_idx;


--
-- Name: log_events_20261125_project_id_marker_hash_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_marker ATTACH PARTITION public.log_events_20261125_project_id_marker_hash_received_at_idx;


--
-- Name: log_events_20261125_project_id_user_id_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_user ATTACH PARTITION public.log_events_20261125_project_id_user_id_received_at_idx;


--
-- Name: log_events_20261126_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_pkey ATTACH PARTITION public.log_events_20261126_pkey;


--
-- Name: log_events_20261126_project_id_case_id_received_at_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_case ATTACH PARTITION public.log_events_20261126_project_id_case_id_received_at_id_idx;


--
-- Name: log_events_20261126_project_id_marker_hash_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_marker ATTACH PARTITION public.log_events_20261126_project_id_marker_hash_received_at_idx;


--
-- Name: log_events_20261126_project_id_user_id_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_user ATTACH PARTITION public.log_events_20261126_project_id_user_id_received_at_idx;


--
-- Name: log_events_20261127_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_pkey ATTACH PARTITION public.log_events_20261127_pkey;


--
-- Name: log_events_20261127_project_id_case_id_received_at_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_case ATTACH PARTITION public.log_events_20261127_project_id_case_id_received_at_id_idx;


--
-- Name: log_events_20261127_project_id_marker_hash_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_marker ATTACH PARTITION public.log_events_20261127_project_id_marker_hash_received_at_idx;


--
-- Name: log_events_20261127_project_id_user_id_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_user ATTACH PARTITION public.log_events_20261127_project_id_user_id_received_at_idx;


--
-- Name: log_events_20261128_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_pkey ATTACH PARTITION public.log_events_20261128_pkey;


--
-- Name: log_events_20261128_project_id_case_id_received_at_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_case ATTACH PARTITION public.log_events_20261128_project_id_case_id_received_at_id_idx;


--
-- Name: log_events_20261128_project_id_marker_hash_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_marker ATTACH PARTITION public.log_events_20261128_project_id_marker_hash_received_at_idx;


--
-- Name: log_events_20261128_project_id_user_id_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_user ATTACH PARTITION public.log_events_20261128_project_id_user_id_received_at_idx;


--
-- Name: log_events_20261129_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_pkey ATTACH PARTITION public.log_events_20261129_pkey;


--
-- Name: log_events_20261129_project_id_case_id_received_at_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_case ATTACH PARTITION public.log_events_20261129_project_id_case_id_received_at_id_idx;


--
-- Name: log_events_20261129_project_id_marker_hash_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_marker ATTACH PARTITION public.log_events_20261129_project_id_marker_hash_received_at_idx;


--
-- Name: log_events_20261129_project_id_user_id_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_user ATTACH PARTITION public.log_events_20261129_project_id_user_id_received_at_idx;


--
-- Name: log_events_default_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_pkey ATTACH PARTITION public.log_events_default_pkey;


--
-- Name: log_events_default_project_id_case_id_received_at_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_case ATTACH PARTITION public.log_events_default_project_id_case_id_received_at_id_idx;


--
-- Name: log_events_default_project_id_marker_hash_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_marker ATTACH PARTITION public.log_events_default_project_id_marker_hash_received_at_idx;


--
-- Name: log_events_default_project_id_user_id_received_at_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.log_events_user ATTACH PARTITION public.log_events_default_project_id_user_id_received_at_idx;


--
-- Name: events events_immutable; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER events_immutable BEFORE DELETE OR UPDATE ON public.events FOR EACH ROW EXECUTE FUNCTION public.events_are_immutable();

ALTER TABLE public.events ENABLE ALWAYS TRIGGER events_immutable;


--
-- Name: events events_not_truncated; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER events_not_truncated BEFORE TRUNCATE ON public.events FOR EACH STATEMENT EXECUTE FUNCTION public.events_are_immutable();

ALTER TABLE public.events ENABLE ALWAYS TRIGGER events_not_truncated;


--
-- Name: procrastinate_jobs procrastinate_jobs_notify_queue_job_aborted_v1; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER procrastinate_jobs_notify_queue_job_aborted_v1 AFTER UPDATE OF abort_requested ON public.procrastinate_jobs FOR EACH ROW WHEN (((old.abort_requested = false) AND (new.abort_requested = true) AND (new.status = 'doing'::public.procrastinate_job_status))) EXECUTE FUNCTION public.procrastinate_notify_queue_abort_job_v1();


--
-- Name: procrastinate_jobs procrastinate_jobs_notify_queue_job_inserted_v1; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1 AFTER INSERT ON public.procrastinate_jobs FOR EACH ROW WHEN ((new.status = 'todo'::public.procrastinate_job_status)) EXECUTE FUNCTION public.procrastinate_notify_queue_job_inserted_v1();


--
-- Name: procrastinate_jobs procrastinate_trigger_abort_requested_events_v1; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER procrastinate_trigger_abort_requested_events_v1 AFTER UPDATE OF abort_requested ON public.procrastinate_jobs FOR EACH ROW WHEN ((new.abort_requested = true)) EXECUTE FUNCTION public.procrastinate_trigger_abort_requested_events_procedure_v1();


--
-- Name: procrastinate_jobs procrastinate_trigger_delete_jobs_v1; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER procrastinate_trigger_delete_jobs_v1 BEFORE DELETE ON public.procrastinate_jobs FOR EACH ROW EXECUTE FUNCTION public.procrastinate_unlink_periodic_defers_v1();


--
-- Name: procrastinate_jobs procrastinate_trigger_scheduled_events_v1; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER procrastinate_trigger_scheduled_events_v1 AFTER INSERT OR UPDATE ON public.procrastinate_jobs FOR EACH ROW WHEN (((new.scheduled_at IS NOT NULL) AND (new.status = 'todo'::public.procrastinate_job_status))) EXECUTE FUNCTION public.procrastinate_trigger_function_scheduled_events_v1();


--
-- Name: procrastinate_jobs procrastinate_trigger_status_events_insert_v1; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER procrastinate_trigger_status_events_insert_v1 AFTER INSERT ON public.procrastinate_jobs FOR EACH ROW WHEN ((new.status = 'todo'::public.procrastinate_job_status)) EXECUTE FUNCTION public.procrastinate_trigger_function_status_events_insert_v1();


--
-- Name: procrastinate_jobs procrastinate_trigger_status_events_update_v1; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER procrastinate_trigger_status_events_update_v1 AFTER UPDATE OF status ON public.procrastinate_jobs FOR EACH ROW EXECUTE FUNCTION public.procrastinate_trigger_function_status_events_update_v1();


--
-- Name: service_clock service_clock_grows; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER service_clock_grows BEFORE DELETE OR UPDATE ON public.service_clock FOR EACH ROW EXECUTE FUNCTION public.service_clock_only_grows();


--
-- Name: service_clock service_clock_not_truncated; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER service_clock_not_truncated BEFORE TRUNCATE ON public.service_clock FOR EACH STATEMENT EXECUTE FUNCTION public.service_clock_only_grows();


--
-- Name: procrastinate_events procrastinate_events_job_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.procrastinate_events
    ADD CONSTRAINT procrastinate_events_job_id_fkey FOREIGN KEY (job_id) REFERENCES public.procrastinate_jobs(id) ON DELETE CASCADE;


--
-- Name: procrastinate_jobs procrastinate_jobs_worker_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.procrastinate_jobs
    ADD CONSTRAINT procrastinate_jobs_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES public.procrastinate_workers(id) ON DELETE SET NULL;


--
-- Name: procrastinate_periodic_defers procrastinate_periodic_defers_job_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.procrastinate_periodic_defers
    ADD CONSTRAINT procrastinate_periodic_defers_job_id_fkey FOREIGN KEY (job_id) REFERENCES public.procrastinate_jobs(id);


--
-- PostgreSQL database dump complete
--


