-- Take the checkpoint of the reader; nothing while another process has it.
select position from checkpoints where name = %(name)s for update skip locked
