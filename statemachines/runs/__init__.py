"""Carrying an automation out: how ten machines move together, from a reason to act to a proven result.

An automation is woken by a case that matters or by the slot of a schedule. The contract (statemachines/contracts) says
what it may do and whether it is on; it is read by every command below. One of them writes it: the
observation of a pull request that nobody granted turns automations off.

    receipt    one reason to begin: a case at one revision, or one slot. Starts at most one run.
    lease      one for a case: its latest receipt, claim and run, the epoch of the claim, the attempts at the revision.
    claim      one runner's hold on the case, 900 seconds at a time. A slot needs none.
    run        what the runner does, from its start to success, failure, escalation or cancellation.
    ledger     one for an automation: what counts against its budgets.
    approval   one question of a runner to a person about one action.
    report     what a scheduled run is for: its one source, and the record that ends the run (statemachines/reports).
    grant      leave for one effect at the provider: one pull request, or turning on its auto-merge. Spent once.
    pull_request  what a CI has seen of a pull request, granted or not, and the heads that nobody had granted.
    patch      one for each id that git gives a change: the runs and pull requests that have had it.

Who writes what in one unit. A command that touches several streams appends to all of them in one transaction, or to
none. The module that decides it is named in brackets.

    issue      receipt, lease                         [offer]          the lease now points to this receipt alone
    claim      receipt, lease, claim                  [offer]          the epoch rises by one
    release    claim, receipt                         [offer]          the receipt closes unless its run has begun
    start      receipt, lease, claim, run, ledger     [advance_run]    one run and one attempt are charged
    progress   run                                    [advance_run]
    charge     run, ledger                            [advance_run]    before the work, all of it or nothing
    ask        run, approval                          [use_grant]      the run waits in review
    answer     run, approval                          [use_grant]      it goes on with the last answer
    authorize  run, grant, ledger, patches            [use_grant]      the ledger holds a place for the pull request
    consume    run, grant, ledger                     [use_grant]      the place is spent; then the provider is called
    proof      run, grant, patches                    [prove_pull_request] a trusted CI says what became of the effect
    observe    pull_request, patches, contract        [pull_request]   the contract only where nobody had granted it
    deploy     run (and the deploy)                   [results]
    verify     run and all that ends with it, case    [results]
    source     report, run                            [results]        the intent moves the run; what was read does not
    report     report, run and all that ends with it  [results]        the report is recorded and the run is over
    end        run, claim, grants, ledger, approvals  [end_run]        an unspent grant gives its place back

A start for a slot writes receipt, run and ledger. When the case of a start no longer matters, the start is refused, and
the receipt is invalidated all the same. Auto-merge costs no place in the ledger.

Which stream rivals race for. Two that want the same thing write the same stream, so the second finds it moved:

    one receipt for a slot or a case         the receipt: its id is made from automation, slot or case, and ordinal
    one chain of receipt, claim, run a case  the lease: its id is made from the case
    one run for a receipt                    the receipt, and the run: its id is made from the receipt
    one budget                               the ledger: its id is made from the automation
    one next step in a run                   the run: request and grant ids are made from its state revision

A runner's command carries a fencing token: who it is, the state revision that it saw, and the epoch of its lease. The
lease decides about the epoch: once a case was offered anew, the older claim is over whatever its own stream says, so a
runner that comes back late can change nothing (book).

What time does. Nothing happens in a stream when a moment passes, but from that moment on everything is judged as if it
had: a receipt expires, a claim and a deadline run out, requests and grants lapse, a deploy is waited for no longer, and
a stop, a new policy or a moved case ends what rested on the old one. Each machine says so in `settle`, runs in
`end_run.settle_run`; of two causes the earlier one counts, whenever it is asked. Decisions judge by that, and reads
show `end_run.as_of`. The ledger alone keeps a clock: what fell out of its window never comes back.

What the sweep writes down. Each minute it records what `settle` says of receipts, claims, overdue runs, grants and
approvals, one command an object; then it has verification counted, and last it issues receipts as a runner would ask
for them. No answer depends on it: a read before and after the sweep shows the same. A project that is being deleted is
left alone; its receipts and runs are shown as ended from the moment of its fence.
"""
