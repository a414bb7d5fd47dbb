-- The state of a test, if it is the latest of its webhook: whether it is under way, whether it ended a moment ago, and
-- its outcome.
select s.testing_until > (select service_seconds()),
    coalesce(s.tested_at > (select service_seconds()) - %(kept)s, false), s.test_status, s.test_error
from webhook_standings s
where s.project_id = %(project_id)s and s.id = %(id)s and s.test_id = %(delivery)s
