-- Where the round of reconciling goes on. The place is kept among the turns of other sweeps; without one a round
-- begins.
select id from sweep_turns where project_id = '' and step = %(step)s
