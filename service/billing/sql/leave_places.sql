-- Leave all places of a round but one.
delete from sweep_turns where project_id = '' and step = %(step)s and id <> %(place)s
