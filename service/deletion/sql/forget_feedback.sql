-- Feedback keeps its texts with the person, but names no project that is deleted: some of what names it.
update feedback set about_project = null
where ctid = any(array(select ctid from feedback where about_project = %(scope)s limit %(batch)s))
