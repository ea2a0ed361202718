package leaderboard

import "github.com/stoa-dev/stoa/lib/keyspace"

var (
	schema = keyspace.New("board")
	scores = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:scores", keyspace.ZSetOf("member → value and time"),
		keyspace.Forever("a board is rewritten, never renewed"), keyspace.Doc{Purpose: "who stands where"})
	deaths = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:deaths", keyspace.ZSetOf("member → Unix ms"),
		keyspace.Forever("goes with the board"), keyspace.Doc{Purpose: "when entries stop to count"})
	loaded = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:loaded", keyspace.BytesOf("state and token"),
		keyspace.Forever("goes with the board"), keyspace.Doc{Purpose: "whether the board is complete"})
	states = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:state", keyspace.HashOf("a compact board"),
		keyspace.Forever("a board is rewritten, never renewed"), keyspace.Doc{Purpose: "a compact board"})
	logs = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:log", keyspace.ListOf("changes"),
		keyspace.Forever("folded every second"), keyspace.Doc{Purpose: "changes that are not in the compact board yet"})
	helds = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:held", keyspace.ListOf("changes"),
		keyspace.Forever("goes with the load"), keyspace.Doc{Purpose: "changes that a load under way has to know of"})
)

// Named returns the keys of an exact board that needs no declared families: board:{name}:scores,
// :deaths and :loaded. Whoever wants keys of their own form, or the keys in a catalogue, declares the
// families and makes the Keys of them: nothing else changes.
func Named(name string) Keys {
	n := keyspace.Text{S: name}
	return Keys{Scores: scores.At(n), Deaths: deaths.At(n), Loaded: loaded.At(n)}
}

// NamedCompact is [Named] for a compact board: board:{name}:state, :log and :held.
func NamedCompact(name string) CompactKeys {
	n := keyspace.Text{S: name}
	return CompactKeys{State: states.At(n), Log: logs.At(n), Held: helds.At(n)}
}
