------------------------------ MODULE Collapse ------------------------------
(***************************************************************************)
(* The collapse protocol of one superposition: cut, hand-over of the lock, *)
(* sweep, fence, commit, abort, and controllers that crash at any step and *)
(* are resumed by others.                                                  *)
(* doc/source/protocol.rst explains the protocol; its steps have the same  *)
(* names here.                                                             *)
(*                                                                         *)
(* What is assumed:                                                        *)
(* - RADOS applies the operations on one object in some order, reports a   *)
(*   version that grows with each write, and serves an operation only with *)
(*   a map at least as new as the operation's.                             *)
(* - An OSD refuses clients that are blocklisted in its own map.  Maps     *)
(*   reach OSDs with operations, or by themselves at any time.             *)
(* - The record changes by compare-and-swap only.                          *)
(* - The primary writes only while it has the lock, and lets go of it only *)
(*   when no write is on its way.  A closed latch keeps the lock from it.  *)
(*   The header's version grows whenever the lock is taken or let go.      *)
(* - A blocklist request may be committed long after its sender has given  *)
(*   up or died (a monitor election).                                      *)
(*                                                                         *)
(* One object stands for one placement group, each on an OSD of its own.   *)
(* An applied write counts as acknowledged, which is the stricter reading. *)
(* The primary may hang, that is, do nothing, at any time and for ever,    *)
(* unless it lives: then it answers who asks for its lock.  A cache of its *)
(* may acknowledge a flush of a write that the fence has refused.          *)
(*                                                                         *)
(* Fault names a safety step that is left out; "none" is the protocol as   *)
(* it is built.  Every other value must violate a property.                *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Objects, Controllers, MaxWrites, MaxCrashes, MaxEpoch, Fault

Faults == {"none", "no-second-sweep", "second-sweep-stops-early", "no-map-wait",
           "no-compare-and-swap", "fence-is-kept", "owner-is-remembered", "stale-header",
           "seal-without-latch", "first-without-barrier", "owner-is-not-asked",
           "hand-over-without-latch"}
ASSUME Fault \in Faults

NoCut == MaxWrites + 1          \* larger than any version: nothing is dirty yet
States == {"creating", "superposed", "collapsing", "promoted", "aborting", "gone"}
Outcomes == {"none", "promoted", "aborted", "dirty", "late-dirty"}
Idle == "idle"
Latches == {"open", "closed", "gone"}
MaxHeader == 2                  \* the lock is let go once at most, and taken again
NoHeader == MaxHeader + 1
Steps == {Idle, "fence-first", "wait-first", "cut", "superpose", "collapse", "seal", "sweep",
          "ask", "sweep-shut", "shut", "reload", "fence", "wait", "sweep-again", "commit", "drop",
          "unfence", "delete"}

VARIABLES
    record,     \* what the record says: its state and outcome
    version,    \* of each object: how many writes of the primary were applied
    cut,        \* of each object: its version at the cut
    start,      \* of each object: its version when the backup could begin to read
    lock,       \* the primary has the lock
    header,     \* the version of the header
    handed,     \* the version that super has remembered, if nobody could write then
    first,      \* the primary was fenced, and the latch closed, before the cut
    latch,      \* open, closed, or gone: then nobody closes it any more
    sent,       \* objects for which a write of the primary is on its way
    epoch,      \* of the monitors' newest map
    blocked,    \* epochs whose map has the primary blocklisted
    map,        \* of each OSD: the epoch of its map
    asked,      \* a blocklist request that no monitor has committed yet
    step,       \* of each controller: what it does next
    fresh,      \* of each controller: the record is still what it has read
    seen,       \* of each controller: the objects that its sweep has looked at
    dirty,      \* of each controller: its sweep has found a dirty object
    carried,    \* of each controller: the epoch that its operations carry
    verdict,    \* of each controller: the outcome that it is about to record
    crashes,    \* how many controllers have died so far
    late,       \* a fenced primary's write was applied after its version was restarted
    lives,      \* the primary never hangs
    refused     \* a primary that lives has met a fence that is not taken back

locking == <<start, lock, header, handed, first, latch, lives>>
vars == <<record, version, cut, locking, sent, epoch, blocked, map, asked, step, fresh, seen, dirty,
          carried, verdict, crashes, late, refused>>
controllers == <<step, fresh, seen, dirty, carried, verdict>>
objects == <<version, cut, sent, epoch, blocked, map, asked, late, refused>>
storage == <<objects, locking>>

Undecided == record.state \in {"superposed", "collapsing"}
Restarted == record.outcome = "late-dirty"
Dirty(o) == version[o] > cut[o]

TypeOK ==
    /\ record \in [state: States, outcome: Outcomes]
    /\ version \in [Objects -> 0..MaxWrites]
    /\ cut \in [Objects -> 0..NoCut]
    /\ start \in [Objects -> 0..MaxWrites]
    /\ lock \in BOOLEAN
    /\ header \in 0..MaxHeader
    /\ handed \in 0..NoHeader
    /\ first \in BOOLEAN
    /\ latch \in Latches
    /\ sent \subseteq Objects
    /\ epoch \in 0..MaxEpoch
    /\ blocked \subseteq 0..MaxEpoch
    /\ map \in [Objects -> 0..MaxEpoch]
    /\ asked \in BOOLEAN
    /\ step \in [Controllers -> Steps]
    /\ seen \in [Controllers -> SUBSET Objects]
    /\ crashes \in 0..MaxCrashes
    /\ fresh \in [Controllers -> BOOLEAN]
    /\ dirty \in [Controllers -> BOOLEAN]
    /\ carried \in [Controllers -> 0..MaxEpoch]
    /\ verdict \in [Controllers -> Outcomes]
    /\ late \in BOOLEAN
    /\ lives \in BOOLEAN
    /\ refused \in BOOLEAN

Init ==
    /\ record = [state |-> "creating", outcome |-> "none"]
    /\ version = [o \in Objects |-> 0]
    /\ cut = [o \in Objects |-> NoCut]
    /\ start = [o \in Objects |-> 0]
    /\ lock = TRUE
    /\ header = 0
    /\ handed = NoHeader
    /\ first = FALSE
    /\ latch = "open"
    /\ sent = {}
    /\ epoch = 0
    /\ blocked = {}
    /\ map = [o \in Objects |-> 0]
    /\ asked = FALSE
    /\ step = [c \in Controllers |-> Idle]
    /\ fresh = [c \in Controllers |-> FALSE]
    /\ seen = [c \in Controllers |-> {}]
    /\ dirty = [c \in Controllers |-> FALSE]
    /\ carried = [c \in Controllers |-> 0]
    /\ verdict = [c \in Controllers |-> "none"]
    /\ crashes = 0
    /\ late = FALSE
    /\ lives \in BOOLEAN
    /\ refused = FALSE

(***************************************************************************)
(* The primary and the cluster                                             *)
(***************************************************************************)
Send(o) ==
    /\ lock
    /\ o \notin sent
    /\ version[o] < MaxWrites
    /\ sent' = sent \cup {o}
    /\ UNCHANGED <<record, version, cut, epoch, blocked, map, asked, controllers, crashes, late,
                   refused, locking>>

\* A controller that creates the superposition, or is about to fence, has asked for the lock.
Release ==
    /\ lock
    /\ header = 0
    /\ sent = {}
    /\ \E c \in Controllers: step[c] \in {"cut", "ask"}
    /\ lock' = FALSE
    /\ header' = header + 1
    /\ UNCHANGED <<record, objects, start, handed, first, latch, lives, controllers, crashes>>

\* Behind a late-dirty decision, the fence holds in each placement group, that of the header, too.
Take ==
    /\ ~lock
    /\ latch # "closed"
    /\ ~Restarted
    /\ header < MaxHeader
    /\ lock' = TRUE
    /\ header' = header + 1
    /\ UNCHANGED <<record, objects, start, handed, first, latch, lives, controllers, crashes>>

\* The OSD applies the write, or refuses it by the map that it has.
Serve(o) ==
    /\ o \in sent
    /\ sent' = sent \ {o}
    /\ IF map[o] \in blocked
       THEN /\ refused' = (refused \/ (lives /\ record.outcome \notin {"aborted", "dirty"}))
            /\ UNCHANGED <<version, late>>
       ELSE /\ version' = [version EXCEPT ![o] = @ + 1]
            /\ late' = (late \/ Restarted)
            /\ UNCHANGED refused
    /\ UNCHANGED <<record, cut, epoch, blocked, map, asked, controllers, crashes, locking>>

Learn(o) ==
    /\ map[o] < epoch
    /\ map' = [map EXCEPT ![o] = epoch]
    /\ UNCHANGED <<record, version, cut, sent, epoch, blocked, asked, controllers, crashes, late,
                   refused, locking>>

Block ==
    /\ asked
    /\ epoch < MaxEpoch
    /\ asked' = FALSE
    /\ epoch' = epoch + 1
    /\ blocked' = blocked \cup {epoch + 1}
    /\ UNCHANGED <<record, version, cut, sent, map, controllers, crashes, late, refused, locking>>

Cluster == Block \/ Release \/ Take \/ \E o \in Objects: Send(o) \/ Serve(o) \/ Learn(o)

(***************************************************************************)
(* Controllers                                                             *)
(***************************************************************************)
Goto(c, next) == step' = [step EXCEPT ![c] = next]

\* What a step keeps for later ones. Who is idle keeps nothing, which keeps the states few.
Keep(c, looked, found, carrying, deciding) ==
    /\ seen' = [seen EXCEPT ![c] = looked]
    /\ dirty' = [dirty EXCEPT ![c] = found]
    /\ carried' = [carried EXCEPT ![c] = carrying]
    /\ verdict' = [verdict EXCEPT ![c] = deciding]
Forget(c) == Keep(c, {}, FALSE, 0, "none")

\* Compare-and-swap: change the record, or give up where another one did.
Swap(c, state, outcome, next) ==
    IF fresh[c] \/ Fault = "no-compare-and-swap"
    THEN /\ record' = [state |-> state, outcome |-> outcome]
         /\ fresh' = [d \in Controllers |-> d = c /\ next # Idle]
         /\ Goto(c, next)
    ELSE /\ fresh' = [fresh EXCEPT ![c] = FALSE]
         /\ UNCHANGED record
         /\ Goto(c, Idle)

Begin(c) ==
    /\ step[c] = Idle
    /\ record.state = "creating"
    /\ \A d \in Controllers: step[d] \notin {"fence-first", "wait-first", "cut"}
    /\ fresh' = [fresh EXCEPT ![c] = TRUE]
    /\ \E next \in IF \A o \in Objects: cut[o] = NoCut /\ ~first
                   THEN {"cut", "drop"} \cup (IF lives THEN {} ELSE {"fence-first"})
                   ELSE {"drop"}:
        /\ Goto(c, next)
        /\ verdict' = [verdict EXCEPT ![c] = IF next = "drop" THEN "aborted" ELSE "none"]
    /\ UNCHANGED <<record, storage, seen, dirty, carried, crashes>>

\* The primary is taken for dead: it is fenced before the cut.
FenceFirst(c) ==
    /\ step[c] = "fence-first"
    /\ asked' = (asked \/ epoch \notin blocked)
    /\ Goto(c, "wait-first")
    /\ UNCHANGED <<record, version, cut, sent, epoch, blocked, map, late, refused, locking, fresh,
                   seen, dirty, carried, verdict, crashes>>

WaitFirst(c) ==
    /\ step[c] = "wait-first"
    /\ epoch \in blocked
    /\ IF latch = "open"
       THEN /\ latch' = "closed"
            /\ first' = TRUE
            /\ handed' = header
            /\ carried' = [carried EXCEPT ![c] = IF Fault = "first-without-barrier" THEN 0
                                                ELSE epoch]
            /\ Goto(c, "cut")
       ELSE /\ Goto(c, Idle)
            /\ UNCHANGED <<latch, first, handed, carried>>
    /\ UNCHANGED <<record, objects, start, lock, header, lives, fresh, seen, dirty, verdict,
                   crashes>>

\* One marker write: the version of this placement group from now on.  It carries the epoch of its
\* client's map, so that a fence before it holds in this placement group.
Cut(c, o) ==
    /\ step[c] = "cut"
    /\ fresh[c]
    /\ cut[o] = NoCut
    /\ cut' = [cut EXCEPT ![o] = version[o]]
    /\ map' = [map EXCEPT ![o] = IF @ < carried[c] THEN carried[c] ELSE @]
    /\ UNCHANGED <<record, version, sent, epoch, blocked, asked, late, refused, controllers,
                   crashes, locking>>

\* Remember the header's version after a hand-over: lock and version are read at once.
Remember(c) ==
    /\ step[c] = "cut"
    /\ fresh[c]
    /\ handed = NoHeader
    /\ header > 0
    /\ ~lock \/ Fault = "owner-is-remembered"
    /\ handed' = header
    /\ UNCHANGED <<record, objects, start, lock, header, first, latch, lives, controllers, crashes>>

\* The backup may read from now on.
Superpose(c) ==
    /\ step[c] = "cut"
    /\ ~fresh[c] \/ \A o \in Objects: cut[o] # NoCut
    /\ Swap(c, "superposed", "none", Idle)
    /\ start' = version
    /\ Forget(c)
    /\ UNCHANGED <<objects, lock, header, handed, first, latch, lives, crashes>>

\* Collapse, abort, or go on with what another controller has begun.
Choose(c) ==
    /\ step[c] = Idle
    /\ Undecided
    /\ fresh' = [fresh EXCEPT ![c] = TRUE]
    /\ \E next \in {"collapse", "drop"}:
        /\ Goto(c, next)
        /\ verdict' = [verdict EXCEPT ![c] = IF next = "drop" THEN "aborted" ELSE "none"]
    /\ UNCHANGED <<record, storage, seen, dirty, carried, crashes>>

\* Whoever resumes a collapse changes nothing, or two of them could overtake each other for ever.
Collapse(c) ==
    /\ step[c] = "collapse"
    /\ IF record.state = "collapsing" /\ fresh[c]
       THEN Goto(c, "seal") /\ UNCHANGED <<record, fresh>>
       ELSE Swap(c, "collapsing", "none", "seal")
    /\ Forget(c)
    /\ UNCHANGED <<storage, crashes>>

\* Close the latch if nobody has changed the header since super remembered it: one operation.
\* Nobody has written then, and nobody will.  Otherwise the sweeps decide.  Closing a latch changes
\* the header; one that super has closed stays as it is.
Seal(c) ==
    /\ step[c] = "seal"
    /\ IF /\ handed # NoHeader
          /\ latch = "open" \/ (latch = "closed" /\ first)
          /\ (header = handed \/ Fault = "stale-header")
       THEN /\ latch' = IF Fault = "seal-without-latch" THEN latch ELSE "closed"
            /\ Goto(c, "reload")
            /\ Keep(c, {}, FALSE, 0, "promoted")
       ELSE /\ Goto(c, "sweep")
            /\ UNCHANGED <<latch, seen, dirty, carried, verdict>>
    /\ UNCHANGED <<record, objects, start, lock, header, handed, first, lives, fresh, crashes>>

\* A stat carries the epoch of its client's map, which its OSD has to have.
Stat(c, o) ==
    /\ o \notin seen[c]
    /\ seen' = [seen EXCEPT ![c] = @ \cup {o}]
    /\ dirty' = [dirty EXCEPT ![c] = @ \/ Dirty(o)]
    /\ map' = [map EXCEPT ![o] = IF @ < carried[c] THEN carried[c] ELSE @]

Sweep(c, o) ==
    /\ step[c] = "sweep"
    /\ Stat(c, o)
    /\ UNCHANGED <<record, version, cut, sent, epoch, blocked, asked, late, refused, step, fresh,
                   carried, verdict, crashes, locking>>

\* A dirty primary lives, unless a fence may have reached it before: then its version has to be
\* restarted, behind a barrier.  A fence that was asked for counts, as it may come at any time.
Fenced == asked \/ epoch \in blocked

Swept(c) ==
    /\ step[c] = "sweep"
    /\ dirty[c] \/ seen[c] = Objects
    /\ IF dirty[c] /\ ~Fenced
       THEN /\ Goto(c, "drop")
            /\ Keep(c, {}, FALSE, 0, "dirty")
       ELSE /\ Goto(c, IF dirty[c] \/ Fault = "owner-is-not-asked" THEN "reload" ELSE "ask")
            /\ Forget(c)
    /\ UNCHANGED <<record, storage, fresh, crashes>>

\* The owner of the lock is asked to let go of it.  One that is silent is fenced as it is; one that
\* answers and keeps the lock wins, unless a fence may have reached it before.
Ask(c) ==
    /\ step[c] = "ask"
    /\ \/ /\ lock
          /\ IF lives /\ ~Fenced
             THEN /\ Goto(c, "drop")
                  /\ Keep(c, {}, FALSE, 0, "dirty")
             ELSE /\ Goto(c, "reload")
                  /\ Forget(c)
       \/ /\ ~lock
          /\ Goto(c, IF latch = "open" THEN "sweep-shut" ELSE "reload")
          /\ Forget(c)
    /\ UNCHANGED <<record, storage, fresh, crashes>>

\* What the owner had cached is in the objects now.
SweepShut(c, o) ==
    /\ step[c] = "sweep-shut"
    /\ Stat(c, o)
    /\ UNCHANGED <<record, version, cut, sent, epoch, blocked, asked, late, refused, step, fresh,
                   carried, verdict, crashes, locking>>

SweptShut(c) ==
    /\ step[c] = "sweep-shut"
    /\ dirty[c] \/ seen[c] = Objects
    /\ IF dirty[c] /\ ~Fenced
       THEN /\ Goto(c, "drop")
            /\ Keep(c, {}, FALSE, 0, "dirty")
       ELSE /\ Goto(c, IF dirty[c] THEN "reload" ELSE "shut")
            /\ Forget(c)
    /\ UNCHANGED <<record, storage, fresh, crashes>>

\* The lock is let go once at most: the version of the header that was read without an owner is 1.
Shut(c) ==
    /\ step[c] = "shut"
    /\ IF header = 1 /\ latch = "open"
       THEN /\ latch' = IF Fault = "hand-over-without-latch" THEN latch ELSE "closed"
            /\ Goto(c, "reload")
       ELSE /\ Goto(c, IF latch = "open" THEN "ask" ELSE "reload")
            /\ UNCHANGED latch
    /\ UNCHANGED <<record, objects, start, lock, header, handed, first, lives, fresh, seen, dirty,
                   carried, verdict, crashes>>

\* Nobody is fenced for a record that another controller has decided.
Reload(c) ==
    /\ step[c] = "reload"
    /\ Goto(c, IF fresh[c] THEN "fence" ELSE Idle)
    /\ UNCHANGED <<record, storage, fresh, seen, dirty, carried, verdict, crashes>>

Fence(c) ==
    /\ step[c] = "fence"
    /\ asked' = (asked \/ epoch \notin blocked)
    /\ Goto(c, "wait")
    /\ UNCHANGED <<record, version, cut, sent, epoch, blocked, map, late, refused, fresh, seen,
                   dirty, carried, verdict, crashes, locking>>

\* Wait until the map that has the fence is the one that our operations carry.
Wait(c) ==
    /\ step[c] = "wait"
    /\ epoch \in blocked
    /\ Keep(c, {}, FALSE, IF Fault = "no-map-wait" THEN 0 ELSE epoch, "none")
    /\ Goto(c, IF verdict[c] = "promoted" \/ Fault = "no-second-sweep" THEN "commit"
               ELSE "sweep-again")
    /\ UNCHANGED <<record, storage, fresh, crashes>>

\* Another controller has taken the fence back, which ends this collapse.
Lost(c) ==
    /\ step[c] \in {"wait-first", "wait"}
    /\ ~asked
    /\ epoch \notin blocked
    /\ Goto(c, Idle)
    /\ UNCHANGED <<record, storage, fresh, seen, dirty, carried, verdict, crashes>>

SweepAgain(c, o) ==
    /\ step[c] = "sweep-again"
    /\ Stat(c, o)
    /\ UNCHANGED <<record, version, cut, sent, epoch, blocked, asked, late, refused, step, fresh,
                   carried, verdict, crashes, locking>>

\* It never stops early, not even at the first dirty object: it is also the barrier behind which
\* no fenced write is applied any more.
SweptAgain(c) ==
    /\ step[c] = "sweep-again"
    /\ seen[c] = Objects \/ (dirty[c] /\ Fault = "second-sweep-stops-early")
    /\ IF dirty[c]
       THEN /\ Goto(c, "drop")
            /\ Keep(c, {}, FALSE, 0, "late-dirty")
       ELSE /\ Goto(c, "commit")
            /\ Forget(c)
    /\ UNCHANGED <<record, storage, fresh, crashes>>

\* THE COMMIT POINT.
Commit(c) ==
    /\ step[c] = "commit"
    /\ Swap(c, "promoted", "promoted", Idle)
    /\ Forget(c)
    /\ UNCHANGED <<storage, crashes>>

Drop(c) ==
    /\ step[c] = "drop"
    /\ Swap(c, "aborting", verdict[c], "unfence")
    /\ Forget(c)
    /\ UNCHANGED <<storage, crashes>>

\* The primary lives: take back the fence, if there is one, and open the latch for good.  A request
\* that is on its way may be committed later all the same.
Unfence(c) ==
    /\ step[c] = "unfence"
    /\ IF record.outcome = "late-dirty" \/ Fault = "fence-is-kept" \/ epoch \notin blocked
       THEN UNCHANGED epoch
       ELSE /\ epoch < MaxEpoch
            /\ epoch' = epoch + 1
    /\ latch' = "gone"
    /\ Goto(c, "delete")
    /\ UNCHANGED <<record, version, cut, sent, blocked, map, asked, late, refused, fresh, seen,
                   dirty, carried, verdict, crashes, start, lock, header, handed, first, lives>>

Delete(c) ==
    /\ step[c] = "delete"
    /\ IF record.state = "gone"
       THEN Goto(c, Idle) /\ UNCHANGED <<record, fresh>>
       ELSE Swap(c, "gone", record.outcome, Idle)
    /\ Forget(c)
    /\ UNCHANGED <<storage, crashes>>

\* Go on with an abort that was cut off; after its end, look for a fence that came later (the
\* ledger of the volume's clients outlives the record).
Resume(c) ==
    /\ step[c] = Idle
    /\ \/ record.state = "aborting"
       \/ record.state = "gone" /\ record.outcome \in {"aborted", "dirty"} /\ epoch \in blocked
    /\ fresh' = [fresh EXCEPT ![c] = TRUE]
    /\ Goto(c, "unfence")
    /\ UNCHANGED <<record, storage, seen, dirty, carried, verdict, crashes>>

Crash(c) ==
    /\ crashes < MaxCrashes
    /\ step[c] # Idle
    /\ crashes' = crashes + 1
    /\ Goto(c, Idle)
    /\ fresh' = [fresh EXCEPT ![c] = FALSE]
    /\ Forget(c)
    /\ UNCHANGED <<record, storage>>

Work(c) ==
    \/ Begin(c) \/ FenceFirst(c) \/ WaitFirst(c) \/ Remember(c) \/ Superpose(c) \/ Choose(c)
    \/ Collapse(c) \/ Seal(c) \/ Swept(c) \/ Reload(c) \/ Fence(c) \/ Wait(c) \/ Lost(c)
    \/ Ask(c) \/ SweptShut(c) \/ Shut(c) \/ SweptAgain(c) \/ Commit(c) \/ Drop(c) \/ Unfence(c)
    \/ Delete(c) \/ Resume(c)
    \/ \E o \in Objects: Cut(c, o) \/ Sweep(c, o) \/ SweepShut(c, o) \/ SweepAgain(c, o)

Next == Cluster \/ \E c \in Controllers: Work(c) \/ Crash(c)

Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ WF_vars(Block) /\ \A c \in Controllers: WF_vars(Work(c))

(***************************************************************************)
(* Safety                                                                  *)
(***************************************************************************)
\* No acknowledged write is lost: a promoted backup replaces a version that nobody has written
\* since the backup could read it, and nobody ever will.
NothingLost == record.state = "promoted" => \A o \in Objects: version[o] = start[o]

\* A primary whose version is restarted writes nothing beside its successor.
NoTwoWriters == ~late

\* No cache of a primary that lives acknowledges a flush whose writes the fence has refused.
NoFlushLost == ~refused

\* One decision, for good.
Decided(state) == state \in {"promoted", "gone"}
OneDecision == [][Decided(record.state) => record'.outcome = record.outcome]_record

(***************************************************************************)
(* Liveness                                                                *)
(***************************************************************************)
EveryoneDecides == <>(record.state \in {"promoted", "gone"})

\* A primary that lives is not fenced for good, and not kept from its lock.
Symmetry == Permutations(Objects) \cup Permutations(Controllers)

LivesUnfenced ==
    <>[](record.outcome \in {"aborted", "dirty"} => epoch \notin blocked /\ latch # "closed")
=============================================================================
