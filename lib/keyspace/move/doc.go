/*
Package move takes a family that is truth in Redis to another name, type or
layout while it is being read and written, on any number of nodes, and loses
nothing. What is derived needs no such care: give it a new pattern, and let the
old keys expire.

# Phases

A move goes through five phases, which Redis keeps in one hash:

	Old       write old        read old    the code is deployed everywhere
	Both      write both       read old    Fill copies what was there, Compare proves it
	Switched  write both       read new    the way back to Both is open
	New       write new        read new    Clean removes the old keys
	Done                                   the move can leave the code

Nodes need not agree on the phase at every moment, and cannot. Each one asks
again when its knowledge is older than Poll, and a change of phase waits until
nobody acts on the one before the last. So at most two neighbouring phases are in
use at any time, and neighbours are chosen to be harmless to each other. The idea
is that of "Online, Asynchronous Schema Change in F1" (VLDB 2013).

# Writing

An entity is one key of the old family and one of the new one, in one slot: both
families have the same hash tag. Both are written by one script, so that nothing
can come between, and any command will do, also one that adds to what is there:

	seen, err := mover.Write(ctx, user,
		[]keyspace.Cmd{{Name: "INCR", Key: oldKey.At(user).Key}},
		[]keyspace.Cmd{{Name: "HINCRBY", Key: newKey.At(user).Key, Args: []string{"visits", "1"}}})

The replies are those of the side that is read. A write that would fall on a new
key that was not filled yet fills it first. A node that slept through a change,
and writes as in the phase before, is told so by what the script finds, and looks
the phase up again.

# Running

One process, such as a command that an operator starts, takes the move along:

	Advance          Old → Both
	Fill, Compare    as often as is wanted
	Advance          Both → Switched; refused until Compare found no difference
	Advance          Switched → New
	Clean            → Done

Each may be interrupted anywhere, by a kill as well, and called again.
*/
package move
