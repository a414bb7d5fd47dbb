-- Move the checkpoint of the reader.
update checkpoints set position = %(position)s where name = %(name)s
