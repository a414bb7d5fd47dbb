-- What the counters of a case have to tell: when it was last seen, and whether some error of it, or of one that was
-- merged into it, did not come from an onboarding proof. Nothing where it is null.
\ir seen_since.sql
and (%(trust)s::text is null or (%(trust)s <> 'synthetic') = (s.unmarked or exists (
    select from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
    where m.project_id = s.project_id and m.merged_into = s.id and t.unmarked)))
