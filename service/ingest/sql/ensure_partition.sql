-- Give a day of telemetry its partition; whether it has one now.
select ensure_partition(telemetry => %(telemetry)s, day => %(day)s)
