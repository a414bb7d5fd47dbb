-- Drop a partition with all that it holds, if its day was over at a moment.
select drop_ended_partition(telemetry => %(telemetry)s, partition_name => %(partition)s, ended => %(ended)s)
