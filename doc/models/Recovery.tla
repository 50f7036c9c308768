------------------------------ MODULE Recovery ------------------------------
(***************************************************************************)
(* The recoveries of one server: its primary on a suspected host, a backup *)
(* on another one, two engines, the record, and the sentinel's lease on    *)
(* the network.  Collapse.tla shows why a decision of the record is right  *)
(* for the storage; here it is one step.                                   *)
(*                                                                         *)
(* What is assumed:                                                        *)
(* - Clocks of hosts and engines run apart by less than Bound ticks.       *)
(* - A sentinel acts in time: once its lease is over, it sets the taps     *)
(*   down before the clock goes on.  One that died with its host need not. *)
(* - A host that is up and connected is heard at least once a tick.        *)
(* - The tenants' network is never cut: the worst case for two copies.     *)
(* - Control and storage networks of a host are cut together: then only    *)
(*   the lease helps.                                                      *)
(* - One engine at a time may lose its own link to the host, and hears     *)
(*   everything else.  At least one engine hears the host, and votes.      *)
(* - The host dies and boots again once, its networks are cut and healed   *)
(*   once, and the lead changes once.  An engine that has lost the lead    *)
(*   may go on for ever as if it had not.                                  *)
(*                                                                         *)
(* Fault names a safety step that is left out; "none" is the design.       *)
(* Every other value must violate a property.                              *)
(***************************************************************************)
EXTENDS Naturals

CONSTANTS Engines, Lease, Bound, Fault

Faults == {"none", "no-lease", "no-wait-for-lease", "beat-without-domains",
           "no-compare-and-swap", "taps-before-record", "resume-forgets", "no-vote",
           "no-wait-from-record"}
ASSUME Fault \in Faults

VARIABLES
    silence,    \* ticks since the host was heard and heard its echo, counted up to Longest
    since,      \* ticks since the suspicion was recorded, counted up to Longest
    deaf,       \* engines that do not hear the host although it is heard
    host,       \* "up" or "down"
    cutOff,     \* the host's control and storage networks are cut
    guest,      \* of the primary: "running" or "dead"
    tap,        \* of the primary: "up" or "down"
    absent,     \* the host's last beat did not name the primary
    wrote,      \* the primary has written since the cut
    record,     \* of the superposition: "none", "superposed", "promoted" or "dropped"
    backup,     \* "none", "booting", "ready" (sealed), or "open" (visible)
    leads,      \* engines that believe that they lead
    won,        \* engines that are about to commit: they found the backup ready and the race won
    happened,   \* what has happened: "death", "boot", "cut", "heal", "takeover"
    orphaned    \* a recovery was ended in favour of a primary that did not run

vars == <<silence, since, deaf, host, cutOff, guest, tap, absent, wrote, record, backup, leads, won, happened,
          orphaned>>
ears == <<since, deaf>>
machine == <<silence, ears, host, cutOff, guest, tap, absent, wrote>>
recovery == <<record, backup, won, orphaned>>

Longest == Lease + Bound

TypeOK ==
    /\ silence \in 0..Longest
    /\ since \in 0..Longest
    /\ deaf \in SUBSET Engines /\ deaf # Engines
    /\ host \in {"up", "down"}
    /\ cutOff \in BOOLEAN
    /\ guest \in {"running", "dead"}
    /\ tap \in {"up", "down"}
    /\ absent \in BOOLEAN
    /\ wrote \in BOOLEAN
    /\ record \in {"none", "superposed", "promoted", "dropped"}
    /\ backup \in {"none", "booting", "ready", "open"}
    /\ leads \subseteq Engines
    /\ won \subseteq Engines
    /\ happened \subseteq {"death", "boot", "cut", "heal", "takeover",
                            "deafness"}
    /\ orphaned \in BOOLEAN

Init ==
    /\ silence = 0 /\ since = 0 /\ deaf = {} /\ host = "up" /\ cutOff = FALSE
    /\ guest = "running" /\ tap = "up" /\ absent = FALSE /\ wrote = FALSE
    /\ record = "none" /\ backup = "none"
    /\ \E e \in Engines: leads = {e}
    /\ won = {} /\ happened = {} /\ orphaned = FALSE

(***************************************************************************)
(* Time, the host, and its sentinel                                        *)
(***************************************************************************)
TapsDue == host = "up" /\ silence >= Lease /\ tap = "up" /\ Fault # "no-lease"

Next1(ticks) == IF ticks < Longest THEN ticks + 1 ELSE ticks
Counts == record = "superposed" /\ since < Longest

Tick ==
    /\ silence < Longest \/ Counts
    /\ ~TapsDue
    /\ ~(host = "up" /\ ~cutOff /\ silence >= 1)
    /\ silence' = Next1(silence)
    /\ since' = IF Counts THEN since + 1 ELSE since
    /\ UNCHANGED <<deaf, host, cutOff, guest, tap, absent, wrote, recovery, leads, happened>>

TapsDown ==
    /\ TapsDue
    /\ tap' = "down"
    /\ UNCHANGED <<silence, ears, host, cutOff, guest, absent, wrote, recovery, leads, happened>>

Once(event) == event \notin happened /\ happened' = happened \cup {event}

Die ==
    /\ Once("death")
    /\ host' = "down" /\ guest' = "dead"
    /\ UNCHANGED <<silence, ears, cutOff, tap, absent, wrote, recovery, leads>>

Boot ==
    /\ host = "down" /\ Once("boot")
    /\ host' = "up"
    /\ UNCHANGED <<silence, ears, cutOff, guest, tap, absent, wrote, recovery, leads>>

Cut ==
    /\ Once("cut")
    /\ cutOff' = TRUE
    /\ UNCHANGED <<silence, ears, host, guest, tap, absent, wrote, recovery, leads>>

Heal ==
    /\ cutOff /\ Once("heal")
    /\ cutOff' = FALSE
    /\ UNCHANGED <<silence, ears, host, guest, tap, absent, wrote, recovery, leads>>

\* The host is heard, and hears its echo.  Its sentinel reads the record first: a primary that was
\* overtaken ends, any other has its taps set up again.
Beat ==
    /\ host = "up" /\ ~cutOff
    /\ silence' = 0
    /\ IF record = "promoted" /\ Fault # "taps-before-record"
       THEN guest' = "dead" /\ UNCHANGED tap
       ELSE tap' = "up" /\ UNCHANGED guest
    /\ absent' = (guest' = "dead")
    /\ UNCHANGED <<ears, host, cutOff, wrote, recovery, leads, happened>>

\* Behind a promotion there is the fence, so that only a superposed volume can become dirty.
Write ==
    /\ guest = "running" /\ ~cutOff /\ record = "superposed"
    /\ wrote' = TRUE
    /\ UNCHANGED <<silence, ears, host, cutOff, guest, tap, absent, recovery, leads, happened>>

(***************************************************************************)
(* Engines: any of them that believes to lead                              *)
(***************************************************************************)
\* A suspicion may be wrong: it needs no reason here.  Each superposition has an id of its own,
\* so that nobody commits this one who has won another one.
Superpose(e) ==
    /\ e \in leads /\ record = "none"
    /\ record' = "superposed" /\ backup' = "booting" /\ wrote' = FALSE /\ won' = {}
    /\ since' = 0
    /\ UNCHANGED <<silence, deaf, host, cutOff, guest, tap, absent, orphaned, leads, happened>>

Ready ==
    /\ backup = "booting" /\ record = "superposed"
    /\ backup' = "ready"
    /\ UNCHANGED <<machine, record, won, orphaned, leads, happened>>

\* A beat names the servers that run.  Without that, a host that was booted again looks well.
Alive == silence = 0 /\ (~absent \/ Fault = "beat-without-domains")

\* An engine whose link to the host is lost asks the others: one that hears the host spares it.
Hears(e) == e \notin deaf \/ Fault # "no-vote"

\* The race is lost to a primary that is alive.
Spare(e) ==
    /\ e \in leads /\ record = "superposed" /\ Alive /\ Hears(e)
    /\ record' = "dropped"
    /\ orphaned' = (orphaned \/ absent)
    /\ UNCHANGED <<machine, backup, won, leads, happened>>

\* The race is lost to a primary that has written.  If it is dead by now, its version is
\* recovered anew.
Dirty(e) ==
    /\ e \in leads /\ record = "superposed" /\ wrote
    /\ record' = "dropped"
    /\ UNCHANGED <<machine, backup, won, orphaned, leads, happened>>

\* The backup of a dropped superposition ends before there is another one.
Clean ==
    /\ record = "dropped"
    /\ record' = "none" /\ backup' = "none"
    /\ UNCHANGED <<machine, won, orphaned, leads, happened>>

\* Wait, from the record of the suspicion on, until a primary that hears nobody has left the
\* network, unless its host says that it does not run.  A beat meanwhile spares it.
Waited == since = Longest \/ Fault = "no-wait-from-record"
Silent(e) == IF Hears(e) THEN silence >= since ELSE TRUE
Unseen(e) == \/ Waited /\ Silent(e)
             \/ absent
             \/ Fault = "no-wait-for-lease"

Win(e) ==
    /\ e \in leads /\ record = "superposed" /\ backup = "ready" /\ Unseen(e) /\ ~wrote
    /\ won' = won \cup {e}
    /\ UNCHANGED <<machine, record, backup, orphaned, leads, happened>>

\* The decision of the storage: sweep, fence, sweep and compare-and-swap (Collapse.tla).  The
\* lease is looked at once more: the host may have been heard meanwhile.
Commit(e) ==
    /\ e \in won
    /\ won' = won \ {e}
    /\ IF (record = "superposed" /\ ~wrote /\ Unseen(e))
          \/ (Fault = "no-compare-and-swap" /\ record = "dropped")
       THEN record' = "promoted"
       ELSE UNCHANGED record
    /\ UNCHANGED <<machine, backup, orphaned, leads, happened>>

Open(e) ==
    /\ e \in leads /\ record = "promoted" /\ backup = "ready"
    /\ backup' = "open"
    /\ UNCHANGED <<machine, record, won, orphaned, leads, happened>>

\* Another engine takes the lead.  The first one has died, or goes on as if nothing had been.  The
\* new one knows what the record knows.
TakeOver ==
    /\ Once("takeover")
    /\ \E e \in Engines \ leads, kept \in SUBSET leads: leads' = kept \cup {e}
    /\ won' = won \cap leads'
    /\ backup' = IF Fault = "resume-forgets" /\ record = "superposed" THEN "none" ELSE backup
    /\ UNCHANGED <<machine, record, orphaned>>

LoseLink ==
    /\ Once("deafness")
    /\ \E e \in Engines: deaf' = {e}
    /\ UNCHANGED <<silence, since, host, cutOff, guest, tap, absent, wrote, recovery, leads>>

Decide(e) == Superpose(e) \/ Spare(e) \/ Dirty(e) \/ Win(e) \/ Commit(e) \/ Open(e)

Next ==
    \/ Tick \/ TapsDown \/ Die \/ Boot \/ Cut \/ Heal \/ Beat \/ Write \/ Ready \/ Clean
    \/ TakeOver \/ LoseLink
    \/ \E e \in Engines: Decide(e)

\* A silent host, and one that is back without its server, is suspected some day; whatever was
\* begun goes on some day.
Suspect(e) == Superpose(e) /\ (silence = Longest \/ guest = "dead")

Spec == Init /\ [][Next]_vars
FairSpec ==
    /\ Spec
    /\ WF_vars(Tick) /\ WF_vars(TapsDown) /\ WF_vars(Beat) /\ WF_vars(Ready) /\ WF_vars(Clean)
    /\ \A e \in Engines:
        /\ WF_vars(Suspect(e)) /\ WF_vars(Spare(e)) /\ WF_vars(Dirty(e))
        /\ SF_vars(Win(e)) /\ SF_vars(Commit(e)) /\ SF_vars(Open(e))

(***************************************************************************)
(* Safety                                                                  *)
(***************************************************************************)
PrimaryVisible == host = "up" /\ guest = "running" /\ tap = "up"
BackupVisible == backup = "open"

OneVisible == ~(PrimaryVisible /\ BackupVisible)
NothingLost == record = "promoted" => ~wrote
NoOrphan == ~orphaned
OpenedByRecord == BackupVisible => record = "promoted"

(***************************************************************************)
(* Liveness                                                                *)
(***************************************************************************)
Served == <>[](PrimaryVisible \/ BackupVisible)
=============================================================================
