----------------------------- MODULE Succession -----------------------------
(***************************************************************************)
(* A second superposition over a promoted one that is not merged yet, and  *)
(* the merge of either: create, cut, collapse, drop, pass on, merge, and   *)
(* controllers that hang or crash at any step and are resumed by others.   *)
(* doc/source/protocol.rst explains the steps ("A second failure before    *)
(* the merge").                                                            *)
(*                                                                         *)
(* Superposition "one" is promoted: its backup B runs on overlay O1 over   *)
(* volume V.  Superposition "two" gives it a backup C on O2 over O1.       *)
(*                                                                         *)
(* What is assumed:                                                        *)
(* - A fence is in force at once, and a sweep looks at all objects at      *)
(*   once: Collapse.tla has maps, single objects and late fences.          *)
(* - A client with the lock of an image writes until it is fenced, or      *)
(*   until Ceph blocklists it as another client breaks its lock. No        *)
(*   decision takes that entry back (protocol.rst, as below).              *)
(* - A latch keeps clients from taking a lock, and no client from writing  *)
(*   that has one.                                                         *)
(* - Records change by compare-and-swap only.                              *)
(* - A controller looks at claims and records, and takes a fence back, in  *)
(*   one step (protocol.rst, "What it does not cover").                    *)
(* - Nothing is started on the host of the first primary once a merge has  *)
(*   begun.  A server opens the overlay that was handed out to it before   *)
(*   that overlay is merged, and does not hang within that merge.          *)
(* - The end of a merge under a running guest is one step: Merge.tla.      *)
(*                                                                         *)
(* One block stands for all: an image has the number of the write that it  *)
(* holds of the block, or 0 for none.  A hung client is a client that no   *)
(* look finds and that may write all the same.                             *)
(*                                                                         *)
(* Fault names a safety step that is left out; "none" is the protocol as   *)
(* it is built.  Every other value must violate a property.                *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Controllers, Others, MaxWrites, MaxCrashes, Fault

Faults == {"none", "layers-not-swept", "inherited-fence-lifted", "only-visible-fenced",
           "late-dirty-fence-lifted", "overlay-not-latched", "merge-opens-lower-latch",
           "owner-not-fenced", "merge-beside-successor", "upper-overlay-only",
           "claim-not-passed", "promoted-successor-ignored", "unfence-beside-a-merge",
           "newcomer-not-fenced", "waiter-not-fenced", "merges-not-announced",
           "no-compare-and-swap"}
ASSUME Fault \in Faults

(***************************************************************************)
(* A  the first primary, fenced by "one"; it hangs with a write on its way *)
(* B  the backup that "one" has promoted                                   *)
(* C  the backup of "two"                                                  *)
(* D  the server when it is started again, on the overlay that was handed  *)
(*    out to it                                                            *)
(* X  a stranger: a server that is started on the host of A, on the volume *)
(***************************************************************************)
ASSUME Others \subseteq {"D", "X"}
Clients == {"A", "B", "C"} \cup Others

Images == {"V", "O1", "O2"}
Latched == {"V", "O1"}
Supers == {"one", "two"}
Decided == {"promoted", "merging", "merged"}
Undecided == {"creating", "superposed", "collapsing", "aborting"}
Idle == "idle"
Steps == {Idle, "succeed", "cut", "superpose", "collapse", "sweep", "fence", "latch",
          "sweep again", "commit", "drop", "unfence", "remove", "restore", "delete", "lost",
          "pass on", "delete one", "begin", "shut out", "close", "open", "announce",
          "copy", "end", "clean"}

VARIABLES
    one,        \* the record of the first superposition: state, successor, fenced clients
    two,        \* that of the second one: state, outcome, fenced and inherited clients
    claim,      \* the superposition that has the claim on the volume
    latch,      \* of an image: the superposition that has closed it, or "open"
    armed,      \* of an image: the superposition that may close it
    data,       \* of an image: the write that it holds
    cut,        \* what O1 and V held at the cut
    holds,      \* of a client: the image whose lock it believes to have
    visible,    \* clients that a look finds
    ledger,     \* clients in the ledger
    fenced,     \* clients on the blocklist
    broken,     \* clients that Ceph has blocklisted as it broke their locks
    handed,     \* the overlay that was handed out to D
    writes,     \* number of writes so far
    written,    \* the newest write that was acknowledged to users
    step,       \* of each controller: what it does next
    fresh,      \* of each controller: the records that are still what it has read
    aim,        \* of each controller: the clients that it fences
    verdict,    \* of each controller: the outcome that it is about to record
    merging,    \* of each controller: the superposition that it merges
    crashes,    \* how many controllers have died so far
    lost,       \* an acknowledged write is not in the version that was promoted
    strayed     \* users were served by a version that does not count

vars == <<one, two, claim, latch, armed, data, cut, holds, visible, ledger, fenced, broken,
          handed, writes, written, step, fresh, aim, verdict, merging, crashes, lost, strayed>>
local == <<aim, verdict, merging>>
guests == <<data, holds, visible, broken, handed, writes, written, strayed>>
latches == <<latch, armed>>

Counts == IF two.state \in {"promoted", "merging"} THEN "two"
          ELSE IF one.state \in {"promoted", "merging"} /\ two.state # "merged" THEN "one"
          ELSE "none"
\* The superposition that is merged next, or has been merged.
Merged == IF two.state \in Decided THEN "two" ELSE "one"
State(super) == IF super = "two" THEN two.state ELSE one.state
\* What a server is to open on top.
Top(super) == IF super = "two" THEN "O2" ELSE IF super = "one" THEN "O1" ELSE "V"
Real == LET image(name, below) == IF data[name] # 0 THEN data[name] ELSE below IN
        IF Counts = "two" THEN image("O2", image("O1", data["V"]))
        ELSE IF Counts = "one" THEN image("O1", data["V"]) ELSE data["V"]
Dirty == \/ data["O1"] # cut["O1"] /\ Fault # "layers-not-swept"
         \/ data["V"] # cut["V"]
Blocked == fenced \cup broken
Owners(image) == {client \in Clients: holds[client] = image} \ broken
\* The second superposition counts below its promotion, too: nothing else happens to "one".
Successor == one.successor /\ two.state \notin {"none", "gone"}

TypeOK ==
    /\ one.state \in {"promoted", "merging", "merged", "gone"}
    /\ one.successor \in BOOLEAN /\ one.fenced \subseteq Clients
    /\ two.state \in Undecided \cup Decided \cup {"none", "gone"}
    /\ two.outcome \in {"none", "promoted", "aborted", "dirty", "late-dirty"}
    /\ two.fenced \subseteq Clients /\ two.inherited \subseteq Clients
    /\ claim \in Supers \cup {"none"}
    /\ latch \in [Latched -> Supers \cup {"open"}]
    /\ armed \in [Latched -> Supers \cup {"none"}]
    /\ data \in [Images -> 0..MaxWrites] /\ cut \in [Latched -> 0..MaxWrites]
    /\ holds \in [Clients -> Images \cup {"none"}]
    /\ UNION {visible, ledger, fenced, broken} \subseteq Clients
    /\ handed \in {"none", "O1", "O2"}
    /\ writes \in 0..MaxWrites /\ written \in 0..MaxWrites
    /\ step \in [Controllers -> Steps]
    /\ fresh \in [Controllers -> SUBSET Supers]
    /\ aim \in [Controllers -> SUBSET (Clients \cup Controllers)]
    /\ merging \in [Controllers -> {"none", "offline", "online"}]
    /\ crashes \in 0..MaxCrashes

Init ==
    /\ one = [state |-> "promoted", successor |-> FALSE, fenced |-> {"A"}]
    /\ two = [state |-> "none", outcome |-> "none", fenced |-> {}, inherited |-> {}]
    /\ claim = "one"
    /\ latch = [V |-> "one", O1 |-> "open"]
    /\ armed = [V |-> "one", O1 |-> "none"]
    /\ data = [V |-> 0, O1 |-> 0, O2 |-> 0]
    /\ cut = [V |-> 0, O1 |-> 0]
    /\ holds = [client \in Clients |->
        IF client = "A" THEN "V" ELSE IF client = "B" THEN "O1" ELSE "none"]
    /\ visible = {"B"} /\ ledger = {"B"} /\ fenced = {"A"} /\ broken = {}
    /\ handed = "none" /\ writes = 0 /\ written = 0
    /\ step = [c \in Controllers |-> Idle]
    /\ fresh = [c \in Controllers |-> {}]
    /\ aim = [c \in Controllers |-> {}]
    /\ verdict = [c \in Controllers |-> "none"]
    /\ merging = [c \in Controllers |-> "none"]
    /\ crashes = 0 /\ lost = FALSE /\ strayed = FALSE

(***************************************************************************)
(* Clients                                                                 *)
(***************************************************************************)
storage == <<one, two, claim, latches, cut, ledger, fenced>>
control == <<step, fresh, local, crashes, lost>>

\* The OSD applies a write and acknowledges it, unless the client is blocklisted.
Write(client) ==
    /\ writes < MaxWrites
    /\ client \notin Blocked
    /\ holds[client] # "none"
    /\ writes' = writes + 1
    /\ LET image == holds[client]
           real == image = Top(Counts)
           \* What a sealed backup writes, no user sees before its promotion.
           sealed == client = "C" /\ two.state \in Undecided
       IN /\ client = "C" => two.outcome \in {"none", "promoted"}
          /\ data' = [data EXCEPT ![image] = writes']
          /\ written' = IF real THEN writes' ELSE written
          /\ strayed' = (strayed \/ ~(real \/ sealed))
    /\ UNCHANGED <<storage, holds, visible, broken, handed, control>>

\* The client hangs, and its watch expires.
Hang(client) ==
    /\ client \in visible \ {"X"}
    /\ "merging" \notin {one.state, two.state}
    /\ visible' = visible \ {client}
    /\ UNCHANGED <<storage, data, holds, broken, handed, writes, written, strayed, control>>

StartBackup ==
    /\ two.state = "superposed" /\ holds["C"] = "none"
    /\ holds' = [holds EXCEPT !["C"] = "O2"]
    /\ visible' = visible \cup {"C"}
    /\ UNCHANGED <<storage, data, broken, handed, writes, written, strayed, control>>

\* What Cinder reads: the claim, its record, and the one over that.
Found == LET named == IF claim = "one" THEN one.state ELSE two.state IN
         IF claim = "none" \/ named \in {"merged", "gone"} THEN "none"
         ELSE IF claim = "one" /\ two.state \in Decided /\ one.successor
                 /\ Fault # "promoted-successor-ignored" THEN "two"
         ELSE claim

\* A connection is handed out by a change of the record that counts.
HandOut ==
    /\ "D" \in Clients
    /\ handed = "none" /\ "D" \notin visible
    /\ Counts # "none"
    /\ handed' = IF Found = "none" THEN "none" ELSE Top(Found)
    /\ strayed' = (strayed \/ Found # Counts)
    /\ fresh' = [c \in Controllers |-> fresh[c] \ {Found}]
    /\ UNCHANGED <<storage, data, holds, visible, broken, writes, written, step, local, crashes,
                   lost>>

StartAgain ==
    /\ handed # "none" /\ "D" \notin visible /\ holds["D"] = "none"
    /\ handed = Top(Merged) => State(Merged) = "promoted"
    /\ two.state # "gone" \/ two.outcome # "promoted"
    /\ "D" \notin fenced
    /\ visible' = visible \cup {"D"}
    /\ UNCHANGED <<storage, data, holds, broken, handed, writes, written, strayed, control>>

StartStranger ==
    /\ "X" \in Clients \ visible
    /\ {one.state, two.state} \cap {"merging", "merged"} = {}
    /\ Counts # "none"
    /\ visible' = visible \cup {"X"}
    /\ UNCHANGED <<storage, data, holds, broken, handed, writes, written, strayed, control>>

\* librbd breaks the lock of a client that hangs, and has Ceph blocklist it.
TakeLock(client, image) ==
    /\ client \in visible \ Blocked
    /\ holds[client] = "none"
    /\ image \in Latched => latch[image] = "open"
    /\ Owners(image) \ fenced \subseteq Clients \ visible
    /\ broken' = broken \cup (Owners(image))
    /\ holds' = [holds EXCEPT ![client] = image]
    /\ UNCHANGED <<storage, data, visible, handed, writes, written, strayed, control>>

Guests ==
    \/ \E client \in Clients: Write(client) \/ Hang(client)
    \/ StartBackup \/ HandOut \/ StartAgain \/ StartStranger
    \/ "D" \in Clients /\ handed # "none" /\ TakeLock("D", handed)
    \/ "X" \in Clients /\ TakeLock("X", "V")

(***************************************************************************)
(* Controllers                                                             *)
(***************************************************************************)
Goto(c, next) == step' = [step EXCEPT ![c] = next]
Keep(c, aiming, deciding, kind) ==
    /\ aim' = [aim EXCEPT ![c] = aiming]
    /\ verdict' = [verdict EXCEPT ![c] = deciding]
    /\ merging' = [merging EXCEPT ![c] = kind]
Forget(c) == Keep(c, {}, "none", "none")
Read(c, supers) == fresh' = [fresh EXCEPT ![c] = supers]

\* Compare-and-swap of one record: it succeeds if nobody has changed the record since.
Wins(c, super) == super \in fresh[c] \/ Fault = "no-compare-and-swap"
Won(c, super) == fresh' = [d \in Controllers |->
    IF d = c THEN fresh[d] \cup {super} ELSE fresh[d] \ {super}]
\* Every change by somebody else makes the copies of others old.
Touch(super) == fresh' = [d \in Controllers |-> fresh[d] \ {super}]
GiveUp(c) == Goto(c, Idle) /\ Forget(c) /\ Read(c, {})
\* The last step of a controller that changes a record.
Leave(c, super) ==
    /\ Goto(c, Idle) /\ Forget(c)
    /\ fresh' = [d \in Controllers |-> IF d = c THEN {} ELSE fresh[d] \ {super}]

\* The clients that a decision of "two" fences: all that a look finds, but for its own backup.
Known == (visible \cup ledger \cup Owners("O1")) \ {"C"}
Primary == IF Fault = "only-visible-fenced" THEN visible \ {"C"} ELSE Known

\* super --again: the clients of "one" are noted, and the record of "two" is written.
Create(c) ==
    /\ step[c] = Idle
    /\ one.state = "promoted" /\ two.state = "none"
    /\ two' = [two EXCEPT !.state = "creating", !.inherited = one.fenced]
    /\ ledger' = ledger \cup visible
    /\ fresh' = [fresh EXCEPT ![c] = Supers]
    /\ Goto(c, "succeed") /\ Forget(c)
    /\ UNCHANGED <<one, claim, latches, cut, fenced, guests, crashes, lost>>

Succeed(c) ==
    /\ step[c] = "succeed"
    /\ IF Wins(c, "one") /\ one.state = "promoted"
       THEN /\ one' = [one EXCEPT !.successor = TRUE]
            /\ Won(c, "one")
            /\ Goto(c, "cut") /\ Forget(c)
       \* Only its labels have changed: a connection was handed out.
       ELSE IF one.state = "promoted" /\ ~one.successor /\ one.fenced = two.inherited
       THEN /\ Read(c, fresh[c] \cup {"one"})
            /\ UNCHANGED <<one, step, local>>
       ELSE /\ Goto(c, "drop") /\ Keep(c, {}, "aborted", "none")
            /\ UNCHANGED <<one, fresh>>
    /\ UNCHANGED <<two, claim, latches, cut, ledger, fenced, guests, crashes, lost>>

\* The latch of O1 can be closed from here on.
Cut(c) ==
    /\ step[c] = "cut"
    /\ armed' = [armed EXCEPT !["O1"] = "two"]
    /\ cut' = [image \in Latched |-> data[image]]
    /\ Goto(c, "superpose")
    /\ UNCHANGED <<one, two, claim, latch, ledger, fenced, guests, fresh, local, crashes, lost>>

Superpose(c) ==
    /\ step[c] = "superpose"
    /\ IF Wins(c, "two")
       THEN /\ two' = [two EXCEPT !.state = "superposed"]
            /\ Leave(c, "two")
       ELSE GiveUp(c) /\ UNCHANGED two
    /\ UNCHANGED <<one, claim, latches, cut, ledger, fenced, guests, crashes, lost>>

\* Collapse or abort, or continue what another controller has begun.
Choose(c) ==
    /\ step[c] = Idle
    /\ Read(c, Supers)
    /\ \/ /\ two.state \in {"superposed", "collapsing"}
          /\ Goto(c, "collapse") /\ Forget(c)
       \/ /\ two.state \in {"creating", "superposed", "collapsing"}
          /\ Goto(c, "drop") /\ Keep(c, {}, "aborted", "none")
       \/ /\ two.state = "aborting"
          /\ Goto(c, "unfence") /\ Forget(c)
       \/ /\ two.state = "promoted" /\ one.state # "gone"
          /\ Goto(c, "pass on") /\ Forget(c)
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, fenced, guests, crashes, lost>>

Collapse(c) ==
    /\ step[c] = "collapse"
    /\ LET all == Primary \cup two.fenced \cup two.inherited IN
       IF ~Wins(c, "two") THEN GiveUp(c) /\ UNCHANGED <<two, ledger>>
       ELSE /\ ledger' = ledger \cup visible
            /\ IF two.state = "collapsing" /\ all = two.fenced
               THEN UNCHANGED <<two, fresh>>
               ELSE /\ two' = [two EXCEPT !.state = "collapsing", !.fenced = all]
                    /\ Won(c, "two")
            /\ Goto(c, "sweep") /\ Keep(c, all, "none", "none")
    /\ UNCHANGED <<one, claim, latches, cut, fenced, guests, crashes, lost>>

\* Also a fence that is only asked for counts: then the server has to be started again.
WasFenced == (two.fenced \ two.inherited) \cap fenced # {}

Sweep(c) ==
    /\ step[c] = "sweep"
    /\ IF Dirty /\ ~WasFenced
       THEN Goto(c, "drop") /\ Keep(c, {}, "dirty", "none") /\ UNCHANGED fresh
       ELSE IF "two" \in fresh[c]
       THEN Goto(c, "fence") /\ UNCHANGED <<local, fresh>>
       ELSE GiveUp(c)
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, fenced, guests, crashes, lost>>

Fence(c) ==
    /\ step[c] = "fence"
    /\ fenced' = fenced \cup aim[c]
    /\ Goto(c, "latch")
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, guests, fresh, local, crashes, lost>>

\* An opened latch is not armed, so it stays open: another controller has decided.
Latch(c) ==
    /\ step[c] = "latch"
    /\ IF Fault = "overlay-not-latched" THEN Goto(c, "sweep again") /\ UNCHANGED latch
       ELSE IF armed["O1"] # "two" \/ armed["V"] # "one"
       THEN Goto(c, "lost") /\ UNCHANGED latch
       ELSE /\ latch' = [V |-> "one", O1 |-> "two"]
            /\ Goto(c, "sweep again")
    /\ UNCHANGED <<one, two, claim, armed, cut, ledger, fenced, guests, fresh, local, crashes,
                   lost>>

\* Newcomers are fenced, and everything is swept again.
SweepAgain(c) ==
    /\ step[c] = "sweep again"
    /\ ledger' = ledger \cup visible
    /\ IF Primary \subseteq aim[c] \/ Fault = "newcomer-not-fenced"
       THEN /\ Goto(c, IF Dirty THEN "drop" ELSE "commit")
            /\ Keep(c, aim[c], IF Dirty THEN "late-dirty" ELSE "promoted", "none")
            /\ UNCHANGED <<two, fresh>>
       ELSE IF Wins(c, "two")
       THEN /\ two' = [two EXCEPT !.fenced = @ \cup Primary]
            /\ Won(c, "two")
            /\ Goto(c, "fence") /\ Keep(c, aim[c] \cup Primary, "none", "none")
       ELSE Goto(c, "lost") /\ UNCHANGED <<two, fresh, local>>
    /\ UNCHANGED <<one, claim, latches, cut, fenced, guests, crashes, lost>>

\* THE COMMIT POINT.
Commit(c) ==
    /\ step[c] = "commit"
    /\ IF Wins(c, "two")
       THEN /\ two' = [two EXCEPT !.state = "promoted", !.outcome = "promoted"]
            /\ Won(c, "two")
            /\ lost' = (lost \/ data["V"] # cut["V"] \/ data["O1"] # cut["O1"])
            /\ written' = IF data["O2"] # 0 THEN data["O2"] ELSE written
            /\ Goto(c, "pass on") /\ Forget(c)
       ELSE Goto(c, "lost") /\ UNCHANGED <<two, fresh, lost, written, local>>
    /\ UNCHANGED <<one, claim, latches, cut, ledger, fenced, data, holds, visible, broken, handed,
                   writes, strayed, crashes>>

(***************************************************************************)
(* "two" takes the place of "one"                                          *)
(***************************************************************************)
PassOn(c) ==
    /\ step[c] = "pass on"
    /\ IF "one" \in {latch["V"], armed["V"]}
       THEN /\ latch' = [latch EXCEPT !["V"] = "two"]
            /\ armed' = [armed EXCEPT !["V"] = "two"]
       ELSE UNCHANGED latches
    /\ claim' = IF claim = "one" /\ Fault # "claim-not-passed" THEN "two" ELSE claim
    /\ Goto(c, "delete one")
    /\ UNCHANGED <<one, two, cut, ledger, fenced, guests, fresh, local, crashes, lost>>

DeleteOne(c) ==
    /\ step[c] = "delete one"
    /\ IF one.state = "promoted" /\ one.successor
       THEN one' = [one EXCEPT !.state = "gone"] ELSE UNCHANGED one
    /\ Leave(c, "one")
    /\ UNCHANGED <<two, claim, latches, cut, ledger, fenced, guests, crashes, lost>>

(***************************************************************************)
(* A decision for the first backup                                         *)
(***************************************************************************)
Drop(c) ==
    /\ step[c] = "drop"
    /\ IF Wins(c, "two")
       THEN /\ two' = [two EXCEPT !.state = "aborting", !.outcome = verdict[c]]
            /\ Won(c, "two")
            /\ Goto(c, "unfence") /\ Forget(c)
       ELSE GiveUp(c) /\ UNCHANGED two
    /\ UNCHANGED <<one, claim, latches, cut, ledger, fenced, guests, crashes, lost>>

\* Clients that "two" has fenced are let go, unless the merge of "one" may need their fence.
Lift(clients) ==
    IF /\ two.outcome \in (IF Fault = "late-dirty-fence-lifted"
                           THEN {"aborted", "dirty", "late-dirty"} ELSE {"aborted", "dirty"})
       /\ one.state = "promoted" \/ Fault = "unfence-beside-a-merge"
    THEN fenced' = fenced \ (IF Fault = "inherited-fence-lifted" THEN clients
                             ELSE clients \ two.inherited)
    ELSE UNCHANGED fenced

Unfence(c) ==
    /\ step[c] = "unfence"
    /\ Lift(two.fenced)
    /\ Goto(c, "remove")
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, guests, fresh, local, crashes, lost>>

Lost(c) ==
    /\ step[c] = "lost"
    /\ Lift(aim[c])
    /\ GiveUp(c)
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, guests, crashes, lost>>

\* The latch of O1 is opened. O2 is removed, and the clients that have it open are fenced.
Remove(c) ==
    /\ step[c] = "remove"
    /\ latch' = [latch EXCEPT !["O1"] = IF @ = "two" THEN "open" ELSE @]
    /\ armed' = [armed EXCEPT !["O1"] = IF @ = "two" THEN "none" ELSE @]
    /\ IF two.state = "aborting"
       THEN /\ fenced' = fenced \cup (visible \cap {"C"})
            /\ data' = [data EXCEPT !["O2"] = 0]
            /\ visible' = visible \ {"C"}
       ELSE UNCHANGED <<fenced, data, visible>>
    /\ Goto(c, "restore")
    /\ UNCHANGED <<one, two, claim, cut, ledger, holds, broken, handed, writes, written,
                   strayed, fresh, local, crashes, lost>>

\* Late dirty clients stay fenced for "one", which is started again.
Restore(c) ==
    /\ step[c] = "restore"
    /\ IF two.outcome = "late-dirty" /\ one.state \in {"promoted", "merging"}
          /\ ~two.fenced \subseteq one.fenced
       THEN one' = [one EXCEPT !.fenced = @ \cup two.fenced] /\ Touch("one")
       ELSE UNCHANGED <<one, fresh>>
    /\ ledger' = IF two.outcome = "late-dirty" THEN ledger \ two.fenced ELSE ledger
    /\ Goto(c, "delete")
    /\ UNCHANGED <<two, claim, latches, cut, fenced, guests, local, crashes, lost>>

Delete(c) ==
    /\ step[c] = "delete"
    /\ IF Wins(c, "two") /\ two.state = "aborting"
       THEN two' = [two EXCEPT !.state = "gone"] ELSE UNCHANGED two
    /\ Leave(c, "two")
    /\ UNCHANGED <<one, claim, latches, cut, ledger, fenced, guests, crashes, lost>>

\* What was fenced late for a decision that is over.
Tidy ==
    /\ two.state = "gone"
    /\ Lift(two.fenced)
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, guests, step, fresh, local, crashes,
                   lost>>

(***************************************************************************)
(* The merge of the superposition that counts, with all overlays           *)
(***************************************************************************)
\* Change the state of a record, and the clients that it has fenced.
Move(c, super, state, more) ==
    /\ IF super = "two"
       THEN two' = [two EXCEPT !.state = state, !.fenced = @ \cup more] /\ UNCHANGED one
       ELSE one' = [one EXCEPT !.state = state, !.fenced = @ \cup more] /\ UNCHANGED two
    /\ Won(c, super)

ChooseMerge(c, kind) ==
    /\ step[c] = Idle
    /\ State(Merged) \in {"promoted", "merging"}
    \* A successor that counts is refused, but for one that has taken the place.
    /\ Merged = "one" => ~Successor \/ Fault = "merge-beside-successor"
    /\ Merged = "two" => one.state = "gone" /\ claim = "two"
    /\ kind = "online" => Merged = "two" /\ "C" \in visible \ Blocked
    /\ Read(c, Supers)
    /\ Goto(c, IF State(Merged) = "promoted" THEN "begin" ELSE "shut out")
    /\ Keep(c, {}, "none", kind)
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, fenced, guests, crashes, lost>>

Begin(c) ==
    /\ step[c] = "begin"
    /\ IF Wins(c, Merged) /\ State(Merged) = "promoted"
       THEN Move(c, Merged, "merging", {}) /\ Goto(c, "shut out") /\ UNCHANGED local
       ELSE GiveUp(c) /\ UNCHANGED <<one, two>>
    /\ UNCHANGED <<claim, latches, cut, ledger, fenced, guests, crashes, lost>>

\* The clients that have an overlay open that is merged; for "two", not those of the lower one.
Users == {client \in visible \ Blocked: \/ client \in {"B", "C"} /\ holds[client] = Top(Merged)
                                        \/ client = "D" /\ handed = Top(Merged)}

ShutOut(c) ==
    /\ step[c] = "shut out"
    /\ LET owners == Owners("O1") \cup Owners("O2")
           unknown == IF Fault = "owner-not-fenced" THEN Owners(Top(Merged)) ELSE {}
           all == ledger \cup (owners \ unknown)
                  \cup (IF Fault = "waiter-not-fenced" THEN {} ELSE visible)
           mine == all \ (IF merging[c] = "online" THEN {"C"} ELSE {})
       IN IF \/ merging[c] = "offline" /\ Users # {}
             \/ merging[c] = "online" /\ Users # {"C"}
             \/ ~Wins(c, Merged) \/ State(Merged) # "merging"
          THEN GiveUp(c) /\ UNCHANGED <<one, two, ledger>>
          ELSE /\ IF mine \subseteq (IF Merged = "two" THEN two.fenced ELSE one.fenced)
                  THEN UNCHANGED <<one, two, fresh>>
                  ELSE Move(c, Merged, "merging", mine)
               /\ ledger' = ledger \cup visible
               /\ Goto(c, "close")
               /\ Keep(c, mine \cup {d \in Controllers: step[d] = "copy"}, "none", merging[c])
    /\ UNCHANGED <<claim, latches, cut, fenced, guests, crashes, lost>>

\* Also the clients of a merge that another controller has begun are in the ledger, and fenced.
Close(c) ==
    /\ step[c] = "close"
    /\ fenced' = fenced \cup (aim[c] \cap Clients)
    /\ step' = [d \in Controllers |->
        IF d = c THEN "open" ELSE IF d \in aim[c] /\ step[d] = "copy" THEN Idle ELSE step[d]]
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, guests, fresh, local, crashes, lost>>

\* The latch of the volume is opened. Those of lower overlays stay closed until these are removed.
Open(c) ==
    /\ step[c] = "open"
    /\ LET mine(image) == Merged \in {latch[image], armed[image]} /\
                          (image = "V" \/ Fault = "merge-opens-lower-latch")
       IN /\ latch' = [image \in Latched |-> IF mine(image) THEN "open" ELSE latch[image]]
          /\ armed' = [image \in Latched |-> IF mine(image) THEN "none" ELSE armed[image]]
    /\ Goto(c, IF merging[c] = "online" THEN "end" ELSE "announce")
    /\ UNCHANGED <<one, two, claim, cut, ledger, fenced, guests, fresh, local, crashes, lost>>

\* The record changes before an offline merge writes, so that no other one of the same overlays
\* ends meanwhile, and none that another one has overtaken writes.
Announce(c) ==
    /\ step[c] = "announce"
    /\ IF Fault = "merges-not-announced"
       THEN Goto(c, "copy") /\ UNCHANGED <<fresh, local>>
       ELSE IF Wins(c, Merged) /\ State(Merged) = "merging"
       THEN Won(c, Merged) /\ Goto(c, "copy") /\ UNCHANGED local
       ELSE GiveUp(c)
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, fenced, guests, crashes, lost>>

\* From the lowest overlay up, each time from the beginning.
Copy(c) ==
    /\ step[c] = "copy"
    /\ data' = [data EXCEPT !["V"] =
        IF data["O2"] # 0 /\ Merged = "two" THEN data["O2"]
        ELSE IF data["O1"] # 0 /\ ~(Fault = "upper-overlay-only" /\ Merged = "two")
        THEN data["O1"] ELSE @]
    /\ Goto(c, "end")
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, fenced, holds, visible, broken, handed,
                   writes, written, strayed, fresh, local, crashes, lost>>

\* Under a running guest, the rest is copied and its disks are switched, while it stands still.
End(c) ==
    /\ step[c] = "end"
    /\ IF \/ ~Wins(c, Merged) \/ State(Merged) # "merging"
          \/ merging[c] = "offline" /\ Users # {}
          \/ merging[c] = "online" /\ "C" \notin visible \ Blocked
       THEN GiveUp(c) /\ UNCHANGED <<one, two, data, holds>>
       ELSE /\ Move(c, Merged, "merged", {})
            /\ IF merging[c] = "online"
               THEN /\ data' = [data EXCEPT !["V"] = Real]
                    /\ holds' = [holds EXCEPT !["C"] = "V"]
               ELSE UNCHANGED <<data, holds>>
            /\ Goto(c, "clean") /\ Forget(c)
    /\ UNCHANGED <<claim, latches, cut, ledger, fenced, visible, broken, handed, writes, written,
                   strayed, crashes, lost>>

ChooseClean(c) ==
    /\ step[c] = Idle
    /\ "merged" \in {one.state, two.state}
    /\ Goto(c, "clean")
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, fenced, guests, fresh, local, crashes,
                   lost>>

Clean(c) ==
    /\ step[c] = "clean"
    /\ two' = [two EXCEPT !.state = IF @ = "merged" THEN "gone" ELSE @]
    /\ one' = [one EXCEPT !.state = IF @ = "merged" THEN "gone" ELSE @]
    /\ IF "merged" \in {one.state, two.state}
       THEN /\ claim' = "none"
            /\ fenced' = fenced \cup {client \in visible \ {"C"}: client \in {"B", "D"}}
       ELSE UNCHANGED <<claim, fenced>>
    /\ Leave(c, Merged)
    /\ UNCHANGED <<latches, cut, ledger, guests, crashes, lost>>

Crash(c) ==
    /\ crashes < MaxCrashes /\ step[c] # Idle
    /\ crashes' = crashes + 1
    /\ GiveUp(c)
    /\ UNCHANGED <<one, two, claim, latches, cut, ledger, fenced, guests, lost>>

Work(c) ==
    \/ Create(c) \/ Succeed(c) \/ Cut(c) \/ Superpose(c) \/ Choose(c) \/ Collapse(c) \/ Sweep(c)
    \/ Fence(c) \/ Latch(c) \/ SweepAgain(c) \/ Commit(c) \/ PassOn(c) \/ DeleteOne(c) \/ Drop(c)
    \/ Unfence(c) \/ Lost(c) \/ Remove(c) \/ Restore(c) \/ Delete(c) \/ ChooseMerge(c, "offline")
    \/ ChooseMerge(c, "online") \/ Begin(c) \/ ShutOut(c) \/ Close(c) \/ Open(c) \/ Announce(c)
    \/ Copy(c) \/ End(c) \/ ChooseClean(c) \/ Clean(c) \/ Crash(c)

Next == Guests \/ Tidy \/ \E c \in Controllers: Work(c)

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Controllers)

(***************************************************************************)
(* Safety                                                                  *)
(***************************************************************************)
\* What would be opened now holds every write that was acknowledged to users.
NothingLost == ~lost /\ (strayed \/ Real = written)

\* Users are never served by a version that does not count.
OneVersion == ~strayed

\* Whoever is below the version that counts can take no lock there.
LowerShut ==
    /\ two.state \in Decided => latch["O1"] = "two"
    /\ two.state = "promoted" => latch["V"] # "open"
    /\ one.state = "promoted" => latch["V"] # "open"

\* What a decision has fenced for good stays fenced.
FencedForGood ==
    /\ "A" \in fenced
    /\ two.state = "gone" /\ two.outcome = "late-dirty" => two.fenced \subseteq fenced

\* A claim names a superposition that has a record, and the record the version that counts.
ClaimCounts ==
    /\ claim = "one" => one.state # "gone"
    /\ claim = "two" => two.state \in Decided
    /\ claim = "none" => Counts = "none"
=============================================================================
