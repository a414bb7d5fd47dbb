-- Forget how far a rebuild had come.
delete from rebuilds where name = %(name)s
