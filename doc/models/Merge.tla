------------------------------- MODULE Merge -------------------------------
(***************************************************************************)
(* The end of a merge under a running guest: the guest is suspended, the   *)
(* rest is copied, the record says merged (the commit point), the disk is  *)
(* switched to the volume, and the guest goes on.  Whoever drives it may   *)
(* die at any step; QEMU, with the guest in it, may die as well.           *)
(* Then the disk is opened anew as the record says.                        *)
(*                                                                         *)
(* The copy begins while Nova has the server on its failed host, and the   *)
(* end waits for the adoption: a host that Nova has a server on starts it  *)
(* from its volumes if no record keeps it from that.                       *)
(*                                                                         *)
(* What is assumed:                                                        *)
(* - A suspended guest writes nothing.                                     *)
(* - A request to change the record may be carried out although its answer *)
(*   is lost.                                                              *)
(* - The sentinel ends a domain that uses the volume while the record says *)
(*   merging: for it, that is a primary that was overtaken.                *)
(*                                                                         *)
(* Fault names a safety step that is left out; "none" is the merge as it   *)
(* is built.  Every other value must violate a property.                   *)
(***************************************************************************)
EXTENDS Naturals

CONSTANTS MaxWrites, MaxDeaths, Fault

Faults == {"none", "switch-before-record", "resume-before-switch", "record-before-settled",
           "resume-in-doubt", "end-before-adoption"}
ASSUME Fault \in Faults

VARIABLES
    overlay,    \* the newest write that the overlay has
    volume,     \* the newest write that the volume has
    written,    \* the newest write that the guest was told is done
    disk,       \* what the guest's disk uses: "overlay" or "volume"
    guest,      \* "running", "suspended", or "dead" until its disk is opened anew
    record,     \* "merging" or "merged"
    asked,      \* of the request to record: "no", "sent", "done", "answered"
    step,       \* of the driver: "copy", "settle", "record", "switch", "resume", "end", "dead"
    deaths,     \* how often the driver or QEMU has died
    nova        \* where Nova has the server: "failed", "here", or "twice" if both hosts run it

vars == <<overlay, volume, written, disk, guest, record, asked, step, deaths, nova>>

TypeOK ==
    /\ overlay \in 0..MaxWrites /\ volume \in 0..MaxWrites /\ written \in 0..MaxWrites
    /\ disk \in {"overlay", "volume"}
    /\ guest \in {"running", "suspended", "dead"}
    /\ record \in {"merging", "merged"}
    /\ asked \in {"no", "sent", "done", "answered"}
    /\ step \in {"copy", "settle", "record", "switch", "resume", "end", "dead"}
    /\ deaths \in 0..MaxDeaths
    /\ nova \in {"failed", "here", "twice"}

Init ==
    /\ overlay = 0 /\ volume = 0 /\ written = 0
    /\ disk = "overlay" /\ guest = "running" /\ record = "merging"
    /\ asked = "no" /\ step = "copy" /\ deaths = 0 /\ nova = "failed"

\* The guest writes to the disk that it has.
Write ==
    /\ guest = "running" /\ written < MaxWrites
    /\ written' = written + 1
    /\ IF disk = "overlay"
       THEN overlay' = written' /\ UNCHANGED volume
       ELSE volume' = written' /\ UNCHANGED overlay
    /\ UNCHANGED <<disk, guest, record, asked, step, deaths, nova>>

\* QEMU's job copies in the background as long as it lives.
Copy ==
    /\ guest # "dead" /\ disk = "overlay" /\ volume # overlay
    /\ volume' = overlay
    /\ UNCHANGED <<overlay, written, disk, guest, record, asked, step, deaths, nova>>

\* Nova's evacuation adopts the server where it runs.
Adopt ==
    /\ nova = "failed" /\ guest # "dead"
    /\ nova' = "here"
    /\ UNCHANGED <<overlay, volume, written, disk, guest, record, asked, step, deaths>>

\* The failed host is back, and Nova has the server there: it starts the server from its volumes if
\* no record holds them.
Return ==
    /\ nova = "failed" /\ record = "merged" /\ guest # "dead"
    /\ nova' = "twice"
    /\ UNCHANGED <<overlay, volume, written, disk, guest, record, asked, step, deaths>>

Suspend ==
    /\ step = "copy" /\ guest = "running"
    /\ nova = "here" \/ Fault = "end-before-adoption"
    /\ guest' = "suspended"
    /\ step' = IF Fault = "record-before-settled" THEN "record"
               ELSE IF Fault = "switch-before-record" THEN "switch" ELSE "settle"
    /\ UNCHANGED <<overlay, volume, written, disk, record, asked, deaths, nova>>

Settle ==
    /\ step = "settle" /\ volume = overlay
    /\ step' = "record"
    /\ UNCHANGED <<overlay, volume, written, disk, guest, record, asked, deaths, nova>>

Ask ==
    /\ step = "record" /\ asked = "no"
    /\ asked' = "sent"
    /\ UNCHANGED <<overlay, volume, written, disk, guest, record, step, deaths, nova>>

\* THE COMMIT POINT.
Commit ==
    /\ asked = "sent"
    /\ record' = "merged" /\ asked' = "done"
    /\ UNCHANGED <<overlay, volume, written, disk, guest, step, deaths, nova>>

Answer ==
    /\ asked = "done" /\ step = "record"
    /\ asked' = "answered"
    /\ step' = IF Fault = "switch-before-record" THEN "resume"
               ELSE IF Fault = "resume-before-switch" THEN "resume" ELSE "switch"
    /\ UNCHANGED <<overlay, volume, written, disk, guest, record, deaths, nova>>

\* The answer is lost: the guest stands still until the record is known.
GiveUp ==
    /\ step = "record" /\ asked \in {"sent", "done"} /\ Fault = "resume-in-doubt"
    /\ guest' = "running" /\ step' = "copy"
    /\ UNCHANGED <<overlay, volume, written, disk, record, asked, deaths, nova>>

Switch ==
    /\ step = "switch" /\ guest = "suspended"
    /\ disk' = "volume"
    /\ volume' = overlay
    /\ step' = IF Fault = "switch-before-record" /\ record = "merging" THEN "record" ELSE "resume"
    /\ UNCHANGED <<overlay, written, guest, record, asked, deaths, nova>>

Resume ==
    /\ step = "resume" /\ guest = "suspended"
    /\ guest' = "running" /\ step' = "end"
    /\ UNCHANGED <<overlay, volume, written, disk, record, asked, deaths, nova>>

DriverDies ==
    /\ deaths < MaxDeaths /\ step \notin {"end", "dead"}
    /\ deaths' = deaths + 1 /\ step' = "dead"
    /\ UNCHANGED <<overlay, volume, written, disk, guest, record, asked, nova>>

\* The driver goes on from what it finds: a guest that stands still, and the record.  A request
\* whose answer nobody heard is waited for.
GoOn ==
    /\ step = "dead" /\ guest # "dead"
    /\ asked # "sent"
    /\ step' = IF guest = "running" THEN IF disk = "volume" THEN "end" ELSE "copy"
               ELSE IF record = "merged" THEN "switch" ELSE "settle"
    /\ asked' = IF record = "merged" THEN "answered" ELSE "no"
    /\ UNCHANGED <<overlay, volume, written, disk, guest, record, deaths, nova>>

QemuDies ==
    /\ deaths < MaxDeaths /\ guest # "dead"
    /\ deaths' = deaths + 1 /\ guest' = "dead" /\ step' = "dead"
    /\ UNCHANGED <<overlay, volume, written, disk, record, asked, nova>>

\* The sentinel, as in specreds_nova/sentinel/decide.py.
SentinelKills ==
    /\ guest # "dead" /\ disk = "volume" /\ record = "merging" /\ deaths < MaxDeaths
    /\ deaths' = deaths + 1 /\ guest' = "dead" /\ step' = "dead"
    /\ UNCHANGED <<overlay, volume, written, disk, record, asked, nova>>

\* Whoever starts the server anew opens what the record says, once nothing is on its way.
OpenAnew ==
    /\ guest = "dead" /\ asked # "sent"
    /\ guest' = "running"
    /\ disk' = IF record = "merged" THEN "volume" ELSE "overlay"
    /\ step' = IF record = "merged" THEN "end" ELSE "copy"
    /\ asked' = IF record = "merged" THEN "answered" ELSE "no"
    /\ nova' = IF nova = "failed" THEN "here" ELSE nova
    /\ UNCHANGED <<overlay, volume, written, record, deaths>>

Next ==
    \/ Write \/ Copy \/ Suspend \/ Settle \/ Ask \/ Commit \/ Answer \/ GiveUp \/ Switch \/ Resume
    \/ DriverDies \/ GoOn \/ QemuDies \/ SentinelKills \/ OpenAnew
    \/ Adopt \/ Return

Spec == Init /\ [][Next]_vars
FairSpec ==
    /\ Spec
    /\ WF_vars(Copy) /\ WF_vars(Suspend) /\ WF_vars(Settle) /\ WF_vars(Ask) /\ WF_vars(Commit)
    /\ WF_vars(Answer) /\ WF_vars(Switch) /\ WF_vars(Resume) /\ WF_vars(GoOn) /\ WF_vars(OpenAnew)
    /\ WF_vars(Adopt)

(***************************************************************************)
(* Safety                                                                  *)
(***************************************************************************)
\* Whatever the guest was told is written is in what would be opened now.
NothingLost == IF record = "merged" THEN volume = written ELSE overlay = written

\* The sentinel never finds reason to end the server.
Spared == ~(guest # "dead" /\ disk = "volume" /\ record = "merging")

\* A running guest writes to what the record says.
WritesWhatCounts == guest = "running" => (disk = "volume") = (record = "merged")

\* The server never runs on two hosts.
Once == nova # "twice"

(***************************************************************************)
(* Liveness                                                                *)
(***************************************************************************)
Ends == <>[](record = "merged" /\ guest = "running" /\ disk = "volume")
=============================================================================
