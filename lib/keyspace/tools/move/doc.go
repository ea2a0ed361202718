/*
Package move moves a family whose data is only in Redis to another name, type or
layout, without losing data, while any number of nodes read and write it. Derived
data does not need it: give it a new pattern, and let the old keys expire.

# Phases

A move has five phases. The current phase is stored in a hash in Redis:

	Old       write old        read old    the code is deployed everywhere
	Both      write both       read old    Fill copies existing keys, Compare verifies them
	Switched  write both       read new    Back returns to Both
	New       write new        read new    Clean removes the old keys
	Done                                   the code of the move can be removed

Nodes cannot always agree on the phase. Each node reads the phase again when its copy
is older than Poll, and a change of phase waits until no node acts on the phase before
the last one. So at most two adjacent phases are in use at any time, and adjacent
phases are compatible. The idea is from "Online, Asynchronous Schema Change in F1"
(VLDB 2013).

# Writing

An entity is one key of the old family and one key of the new family, in the same
slot: both families have the same hash tag. One script writes both keys, so that no
other command can run in between. Every command is possible, including commands that
add to a value:

	seen, err := mover.Write(ctx, user,
		[]keyspace.Cmd{{Name: "INCR", Key: oldKey.At(user).Key}},
		[]keyspace.Cmd{{Name: "HINCRBY", Key: newKey.At(user).Key, Args: []string{"visits", "1"}}})

The replies are those of the side that is read. If a write meets a new key that was
not filled yet, it fills the key first. If a node missed a change and writes as in the
phase before, the script detects it from the keys, and the node reads the phase again.

# Running

One process, such as a command that an operator starts, runs the move:

	Advance          Old → Both
	Fill, Compare    as often as necessary
	Advance          Both → Switched; refused until Compare found no difference
	Advance          Switched → New
	Clean            → Done

Each step may be interrupted at any point, also by a kill, and called again.
*/
package move
