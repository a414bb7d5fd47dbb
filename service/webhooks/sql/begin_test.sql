-- Begin a test of a webhook: one at a time, and so many within a minute. Returns whether the webhook and its project
-- stand, and whether the test may begin. Whoever ends either of them waits for this statement (R-WEB-09).
with standing as (
    select w.project_id, w.id from webhooks w
    join projects p on p.project_id = w.project_id and p.id = w.project_id and p.status = 'active'
    where w.project_id = %(project_id)s and w.id = %(id)s
    for share of w, p skip locked
), begun as (
    insert into webhook_standings as s (project_id, id, testing_until, test_minute, tests)
    select t.project_id, t.id, (select service_seconds()) + %(longest)s, (select service_seconds()) / 60, 1
    from standing t
    on conflict (project_id, id) do update set
        testing_until = excluded.testing_until, test_minute = excluded.test_minute,
        tests = case when s.test_minute = excluded.test_minute then s.tests + 1 else 1 end
    where coalesce(s.testing_until, 0) <= excluded.testing_until - %(longest)s
        and (s.test_minute is distinct from excluded.test_minute or s.tests < %(most)s)
    returning s.id
)
select exists (select from standing), exists (select from begun)
