-- Whether the installation is older than the plan `self_hosted`.
select before_self_hosted from installation
