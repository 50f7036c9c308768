------------------------------ MODULE Recovery ------------------------------
(***************************************************************************)
(* The recoveries of one server: its primary on a suspected host, a backup *)
(* on another one, two engines, the record, and the sentinel's lease on    *)
(* the network.  Collapse.tla shows why a decision of the record is right  *)
(* for the storage; here it is one step.                                   *)
(*                                                                         *)
(* What is assumed:                                                        *)
(* - Clocks of hosts and engines run apart by less than Bound ticks.       *)
(* - A sentinel that runs acts in time: once its lease is over, it sets    *)
(*   the taps down before the clock goes on.                               *)
(* - A sentinel that died is started again some day, counts its lease from *)
(*   its start, and knows the taps that it set down.  Until that lease is  *)
(*   over, both copies may be visible: OneVisible allows exactly that.     *)
(* - A host that is up and connected is heard at least once a tick.        *)
(* - The tenants' network is never cut: the worst case for two copies.     *)
(* - Control and storage networks of a host are cut together: then only    *)
(*   the lease helps.                                                      *)
(* - One engine at a time may lose its own link to the host, and hears     *)
(*   everything else.  At least one engine hears the host, and votes.      *)
(* - The host dies and boots again once, its networks are cut and healed   *)
(*   once, its sentinel dies once, the backup's host dies once, and the    *)
(*   lead changes once.                                                    *)
(* - An engine that has lost the lead may go on for ever as if it had not. *)
(*   Only a request to force the host down in Nova needs the newest epoch: *)
(*   all others are refused by the record, if they come late.  A request   *)
(*   that was sent may take effect at any time.                            *)
(* - Nothing more is known of the backup's host: if it only looks dead,    *)
(*   it is the suspected host of the next recovery.                        *)
(*                                                                         *)
(* Events says which of these happen: a configuration has some of them, so *)
(* that there are not too many states.                                     *)
(*                                                                         *)
(* Fault names a safety step that is left out; "none" is the design.       *)
(* Every other value must violate a property.                              *)
(***************************************************************************)
EXTENDS Naturals

CONSTANTS Engines, Lease, Bound, Events, Fault

Faults == {"none", "no-lease", "no-wait-for-lease", "beat-without-domains",
           "no-compare-and-swap", "taps-before-record", "resume-forgets", "no-vote",
           "no-wait-from-record", "no-sentinel-restart", "restart-forgets-taps", "fall-back",
           "no-new-start", "no-epoch", "lift-only-at-return", "own-beats"}
ASSUME Fault \in Faults

VARIABLES
    silence,    \* ticks since the host was heard and heard its echo, counted up to Longest
    since,      \* ticks since the suspicion was recorded, counted up to Longest
    deaf,       \* engines that do not hear the host although it is heard
    host,       \* "up" or "down"
    cutOff,     \* the host's control and storage networks are cut
    guest,      \* of the primary: "running" or "dead"
    tap,        \* of the primary: "up", "down", or "lost": down, and its sentinel does not know
    sentinel,   \* of the host: "up" or "down"
    lease,      \* ticks for which the sentinel has heard nobody, counted up to Lease
    absent,     \* the host's last beat did not name the primary
    wrote,      \* the primary has written since the cut
    record,     \* of the superposition: "none", "superposed", "promoted" or "dropped"
    backup,     \* "none", "booting", "ready" (sealed), "open" (visible), or "dead"
    leads,      \* engines that believe that they lead
    newest,     \* the one whose epoch is the newest: all others were superseded
    won,        \* engines that are about to commit: they found the backup ready and the race won
    forced,     \* Nova has forced the host down: it gets no servers
    ordered,    \* engines whose request to force the host down is under way
    happened,   \* what has happened: "death", "boot", "cut", "heal", "takeover", …
    orphaned    \* a recovery was ended in favour of a primary that did not run

ears == <<since, deaf>>
watch == <<tap, sentinel, lease>>
machine == <<silence, ears, host, cutOff, guest, watch, absent, wrote>>
engines == <<leads, newest>>
nova == <<forced, ordered>>
recovery == <<record, backup, won, orphaned, nova>>
vars == <<machine, recovery, engines, happened>>

Longest == Lease + Bound

TypeOK ==
    /\ silence \in 0..Longest
    /\ since \in 0..Longest
    /\ deaf \in SUBSET Engines /\ deaf # Engines
    /\ host \in {"up", "down"}
    /\ cutOff \in BOOLEAN
    /\ guest \in {"running", "dead"}
    /\ tap \in {"up", "down", "lost"}
    /\ sentinel \in {"up", "down"}
    /\ lease \in 0..Lease
    /\ absent \in BOOLEAN
    /\ wrote \in BOOLEAN
    /\ record \in {"none", "superposed", "promoted", "dropped"}
    /\ backup \in {"none", "booting", "ready", "open", "dead"}
    /\ leads \subseteq Engines
    /\ newest \in leads
    /\ won \subseteq Engines
    /\ forced \in BOOLEAN
    /\ ordered \subseteq Engines
    /\ happened \subseteq {"death", "boot", "cut", "heal", "takeover", "deafness",
                            "sentinel death", "backup death"}
    /\ happened \subseteq Events
    /\ orphaned \in BOOLEAN

Init ==
    /\ silence = 0 /\ since = 0 /\ deaf = {} /\ host = "up" /\ cutOff = FALSE
    /\ guest = "running" /\ tap = "up" /\ sentinel = "up" /\ lease = 0
    /\ absent = FALSE /\ wrote = FALSE
    /\ record = "none" /\ backup = "none"
    /\ newest \in Engines /\ leads = {newest}
    /\ won = {} /\ forced = FALSE /\ ordered = {} /\ happened = {} /\ orphaned = FALSE

(***************************************************************************)
(* Time, the host, and its sentinel                                        *)
(***************************************************************************)
TapsDue == /\ host = "up" /\ sentinel = "up" /\ lease = Lease /\ tap = "up"
           /\ Fault # "no-lease"

Next1(ticks, most) == IF ticks < most THEN ticks + 1 ELSE ticks
Counts == record = "superposed" /\ since < Longest
Watches == sentinel = "up" /\ lease < Lease

Tick ==
    /\ silence < Longest \/ Counts \/ Watches
    /\ ~TapsDue
    /\ ~(host = "up" /\ ~cutOff /\ silence >= 1)
    /\ silence' = Next1(silence, Longest)
    /\ since' = IF Counts THEN since + 1 ELSE since
    /\ lease' = IF Watches THEN lease + 1 ELSE lease
    /\ UNCHANGED <<deaf, host, cutOff, guest, tap, sentinel, absent, wrote, recovery, engines,
                   happened>>

TapsDown ==
    /\ TapsDue
    /\ tap' = "down"
    /\ UNCHANGED <<silence, ears, host, cutOff, guest, sentinel, lease, absent, wrote, recovery,
                   engines, happened>>

Once(event) ==
    /\ event \in Events \ happened
    /\ happened' = happened \cup {event}

Die ==
    /\ Once("death")
    /\ host' = "down" /\ guest' = "dead"
    /\ UNCHANGED <<silence, ears, cutOff, watch, absent, wrote, recovery, engines>>

Boot ==
    /\ host = "down" /\ Once("boot")
    /\ host' = "up"
    /\ UNCHANGED <<silence, ears, cutOff, guest, watch, absent, wrote, recovery, engines>>

Cut ==
    /\ Once("cut")
    /\ cutOff' = TRUE
    /\ UNCHANGED <<silence, ears, host, guest, watch, absent, wrote, recovery, engines>>

Heal ==
    /\ cutOff /\ Once("heal")
    /\ cutOff' = FALSE
    /\ UNCHANGED <<silence, ears, host, guest, watch, absent, wrote, recovery, engines>>

\* The sentinel dies alone.  Nobody looks at taps and record until it is started again.
SentinelDies ==
    /\ host = "up" /\ Once("sentinel death")
    /\ sentinel' = "down" /\ lease' = 0
    /\ UNCHANGED <<silence, ears, host, cutOff, guest, tap, absent, wrote, recovery, engines>>

SentinelStarts ==
    /\ host = "up" /\ sentinel = "down" /\ Fault # "no-sentinel-restart"
    /\ sentinel' = "up"
    /\ tap' = IF tap = "down" /\ Fault = "restart-forgets-taps" THEN "lost" ELSE tap
    /\ UNCHANGED <<silence, ears, host, cutOff, guest, lease, absent, wrote, recovery, engines,
                   happened>>

\* The host is heard, and hears its echo.  Its sentinel reads the record first: a primary that was
\* overtaken ends, any other has its taps set up again.
Beat ==
    /\ host = "up" /\ ~cutOff
    /\ silence' = 0 /\ lease' = 0
    /\ IF sentinel = "down" THEN UNCHANGED <<guest, tap>>
       ELSE IF record = "promoted" /\ Fault # "taps-before-record"
       THEN guest' = "dead" /\ UNCHANGED tap
       ELSE tap' = (IF tap = "lost" THEN "lost" ELSE "up") /\ UNCHANGED guest
    /\ absent' = (guest' = "dead")
    /\ forced' = (forced /\ ~(Fault = "lift-only-at-return" /\ silence >= Lease))
    /\ UNCHANGED <<ears, host, cutOff, sentinel, wrote, record, backup, won, orphaned, ordered,
                   engines, happened>>

\* Behind a promotion there is the fence, so that only a superposed volume can become dirty.
Write ==
    /\ guest = "running" /\ ~cutOff /\ record = "superposed"
    /\ wrote' = TRUE
    /\ UNCHANGED <<silence, ears, host, cutOff, guest, watch, absent, recovery, engines, happened>>

(***************************************************************************)
(* Engines: any of them that believes to lead                              *)
(***************************************************************************)
\* A suspicion may be wrong: it needs no reason here.  Each superposition has an id of its own,
\* so that nobody commits this one who has won another one.
Superpose(e) ==
    /\ e \in leads /\ record = "none"
    /\ record' = "superposed" /\ backup' = "booting" /\ wrote' = FALSE /\ won' = {}
    /\ since' = 0
    /\ UNCHANGED <<silence, deaf, host, cutOff, guest, watch, absent, orphaned, nova, engines,
                   happened>>

Ready ==
    /\ backup = "booting" /\ record = "superposed"
    /\ backup' = "ready"
    /\ UNCHANGED <<machine, record, won, orphaned, nova, engines, happened>>

\* A beat names the servers that run.  Without that, a host that was booted again looks well.
Alive == silence = 0 /\ (~absent \/ Fault = "beat-without-domains")

\* The backup's host dies.  Its sentinel and its lease are gone with it.
BackupDies ==
    /\ backup \in {"booting", "ready", "open"} /\ record \in {"superposed", "promoted"}
    /\ Once("backup death")
    /\ backup' = "dead"
    /\ UNCHANGED <<machine, record, won, orphaned, nova, engines>>

\* An engine whose link to the host is lost asks the others: one that hears the host spares it.
Hears(e) == e \notin deaf \/ Fault # "no-vote"

\* The race is lost to a primary that is alive.
Spare(e) ==
    /\ e \in leads /\ record = "superposed" /\ Alive /\ Hears(e)
    /\ record' = "dropped"
    /\ orphaned' = (orphaned \/ absent)
    /\ UNCHANGED <<machine, backup, won, nova, engines, happened>>

\* The race is lost to a primary that has written.  If it is dead by now, its version is
\* recovered anew; so it is if the backup's host has died.  What was promoted is never dropped.
Dirty(e) ==
    /\ e \in leads
    /\ \/ record = "superposed" /\ (wrote \/ backup = "dead")
       \/ record = "promoted" /\ backup = "dead" /\ Fault = "fall-back"
    /\ record' = "dropped"
    /\ UNCHANGED <<machine, backup, won, orphaned, nova, engines, happened>>

\* The backup of a dropped superposition ends before there is another one.
Clean ==
    /\ record = "dropped"
    /\ record' = "none" /\ backup' = "none"
    /\ UNCHANGED <<machine, won, orphaned, nova, engines, happened>>

\* Wait until a primary that hears nobody has left the network, unless its host says that it does
\* not run.  The wait begins with the record of the suspicion, or with the last beat that any engine
\* has heard, if all of them have said since the record when that was.  A beat meanwhile spares the
\* primary.
Waited(e) == \/ since = Longest
             \/ since >= 1 /\ silence = Longest
             \/ Fault = "no-wait-from-record"
             \/ Fault = "own-beats" /\ e \in deaf
Silent(e) == IF Hears(e) THEN silence >= since ELSE TRUE
Unseen(e) == \/ Waited(e) /\ Silent(e)
             \/ absent
             \/ Fault = "no-wait-for-lease"

Win(e) ==
    /\ e \in leads /\ record = "superposed" /\ backup = "ready" /\ Unseen(e) /\ ~wrote
    /\ won' = won \cup {e}
    /\ UNCHANGED <<machine, record, backup, orphaned, nova, engines, happened>>

\* The decision of the storage: sweep, fence, sweep and compare-and-swap (Collapse.tla).  The
\* lease is looked at once more: the host may have been heard meanwhile.
Commit(e) ==
    /\ e \in won
    /\ won' = won \ {e}
    /\ IF (record = "superposed" /\ ~wrote /\ Unseen(e))
          \/ (Fault = "no-compare-and-swap" /\ record = "dropped")
       THEN record' = "promoted"
       ELSE UNCHANGED record
    /\ UNCHANGED <<machine, backup, orphaned, nova, engines, happened>>

\* If the backup has died, it is started from its version on another host.
Open(e) ==
    /\ e \in leads /\ record = "promoted"
    /\ backup = "ready" \/ (backup = "dead" /\ Fault # "no-new-start")
    /\ backup' = "open"
    /\ UNCHANGED <<machine, record, won, orphaned, nova, engines, happened>>

\* Nova moves no server off a host that it believes to be up.  The engine reads in the database that
\* its epoch is the newest, and that the host is suspected; then it sends its request.
ForceDown(e) ==
    /\ "force" \in Events /\ e \in leads /\ record = "promoted" /\ ~forced
    /\ (e = newest /\ silence >= Lease) \/ (e # newest /\ Fault = "no-epoch")
    /\ ordered' = ordered \cup {e}
    /\ UNCHANGED <<machine, record, backup, won, orphaned, forced, engines, happened>>

\* The request takes effect, however late, and whatever has become of its engine.
Forced(e) ==
    /\ e \in ordered
    /\ ordered' = ordered \ {e} /\ forced' = TRUE
    /\ UNCHANGED <<machine, record, backup, won, orphaned, engines, happened>>

\* The engine that trusts the host again lifts what an engine has done, also if that happens late.
Lift ==
    /\ forced /\ host = "up" /\ ~cutOff /\ silence < Lease /\ Fault # "lift-only-at-return"
    /\ forced' = FALSE
    /\ UNCHANGED <<machine, record, backup, won, orphaned, ordered, engines, happened>>

\* Another engine takes the lead, in a newer epoch.  The first one has died, or goes on as if
\* nothing had been.  The new one knows what the record knows.
TakeOver ==
    /\ Once("takeover")
    /\ \E e \in Engines \ leads, kept \in SUBSET leads:
        leads' = kept \cup {e} /\ newest' = e
    /\ won' = won \cap leads'
    /\ backup' = IF Fault = "resume-forgets" /\ record = "superposed" THEN "none" ELSE backup
    /\ UNCHANGED <<machine, record, orphaned, nova>>

LoseLink ==
    /\ Once("deafness")
    /\ \E e \in Engines: deaf' = {e}
    /\ UNCHANGED <<silence, since, host, cutOff, guest, watch, absent, wrote, recovery, engines>>

Decide(e) == \/ Superpose(e) \/ Spare(e) \/ Dirty(e) \/ Win(e) \/ Commit(e) \/ Open(e)
             \/ ForceDown(e) \/ Forced(e)

Next ==
    \/ Tick \/ TapsDown \/ Die \/ Boot \/ Cut \/ Heal \/ Beat \/ Write \/ Ready \/ Clean
    \/ SentinelDies \/ SentinelStarts \/ BackupDies \/ Lift \/ TakeOver \/ LoseLink
    \/ \E e \in Engines: Decide(e)

\* A silent host, and one that is back without its server, is suspected some day; whatever was
\* begun goes on some day.
Suspect(e) == Superpose(e) /\ (silence = Longest \/ guest = "dead")

Spec == Init /\ [][Next]_vars
FairSpec ==
    /\ Spec
    /\ WF_vars(Tick) /\ WF_vars(TapsDown) /\ WF_vars(Beat) /\ WF_vars(Ready) /\ WF_vars(Clean)
    /\ WF_vars(SentinelStarts) /\ WF_vars(Lift)
    /\ \A e \in Engines:
        /\ WF_vars(Suspect(e)) /\ WF_vars(Spare(e)) /\ WF_vars(Dirty(e))
        /\ SF_vars(Win(e)) /\ SF_vars(Commit(e)) /\ SF_vars(Open(e))

(***************************************************************************)
(* Safety                                                                  *)
(***************************************************************************)
PrimaryVisible == host = "up" /\ guest = "running" /\ tap = "up"
BackupVisible == backup = "open"

\* A sentinel that has died and was started again hides its servers a lease later.
Excused == "sentinel death" \in happened /\ (sentinel = "down" \/ lease < Lease \/ TapsDue)
OneVisible == PrimaryVisible /\ BackupVisible => Excused
PromotedForGood == [][record = "promoted" => record' = "promoted"]_record
NothingLost == record = "promoted" => ~wrote
NoOrphan == ~orphaned
OpenedByRecord == BackupVisible => record = "promoted"

(***************************************************************************)
(* Liveness                                                                *)
(***************************************************************************)
Served == <>[](PrimaryVisible \/ BackupVisible)
Parted == <>[]~(PrimaryVisible /\ BackupVisible)
Used == <>[](host = "up" /\ ~cutOff => ~forced)
=============================================================================
