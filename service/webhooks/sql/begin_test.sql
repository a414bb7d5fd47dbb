-- Begin a test of a webhook: one at a time, and so many within a minute, and none anew whose outcome is known. Returns
-- whether the webhook and its project stand, and whether the test may begin. Whoever ends either of them waits for this
-- statement (R-WEB-09).
with standing as (
    select w.project_id, w.id from webhooks w
    join projects p on p.project_id = w.project_id and p.id = w.project_id and p.status = 'active'
    where w.project_id = %(project_id)s and w.id = %(id)s
    for share of w, p skip locked
), begun as (
    insert into webhook_standings as s (project_id, id, testing_until, test_minute, tests, test_id)
    select t.project_id, t.id, (select service_seconds()) + %(longest)s, (select service_seconds()) / 60, 1,
        %(delivery)s
    from standing t
    on conflict (project_id, id) do update set
        testing_until = excluded.testing_until, test_minute = excluded.test_minute,
        tests = case when s.test_minute = excluded.test_minute then s.tests + 1 else 1 end,
        test_id = excluded.test_id, tested_at = null
    where coalesce(s.testing_until, 0) <= excluded.testing_until - %(longest)s
        and (s.test_minute is distinct from excluded.test_minute or s.tests < %(most)s)
        and (s.test_id is distinct from excluded.test_id or s.tested_at is null
            or s.tested_at <= excluded.testing_until - %(longest)s - %(kept)s)
    returning s.id
)
select exists (select from standing), exists (select from begun)
