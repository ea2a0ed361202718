package leaderboard

import "github.com/stoa-dev/stoa/lib/keyspace"

var (
	schema = keyspace.New("board")
	scores = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:scores", keyspace.ZSetOf("member → value and time"),
		keyspace.Forever("a board is rewritten, never renewed"), keyspace.Doc{Purpose: "ranking of the members"})
	deaths = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:deaths", keyspace.ZSetOf("member → Unix ms"),
		keyspace.Forever("goes with the board"), keyspace.Doc{Purpose: "when entries expire"})
	loaded = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:loaded", keyspace.BytesOf("state and token"),
		keyspace.Forever("goes with the board"), keyspace.Doc{Purpose: "whether the board is complete"})
	states = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:state", keyspace.HashOf("a compact board"),
		keyspace.Forever("a board is rewritten, never renewed"), keyspace.Doc{Purpose: "a compact board"})
	logs = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:log", keyspace.ListOf("changes"),
		keyspace.Forever("folded every second"), keyspace.Doc{Purpose: "changes not yet folded into the compact board"})
	helds = keyspace.Def1[keyspace.Text](schema, "board:{{name}}:held", keyspace.ListOf("changes"),
		keyspace.Forever("goes with the load"), keyspace.Doc{Purpose: "changes since the running load began"})
)

// Named returns the keys of an exact board that needs no declared families: board:{name}:scores, :deaths and :loaded.
// To use keys of another form, or to list the keys in a catalogue, declare the families and make the Keys from them:
// nothing else changes.
func Named(name string) Keys {
	n := keyspace.Text{S: name}
	return Keys{Scores: scores.At(n), Deaths: deaths.At(n), Loaded: loaded.At(n)}
}

// NamedCompact is [Named] for a compact board: board:{name}:state, :log and :held.
func NamedCompact(name string) CompactKeys {
	n := keyspace.Text{S: name}
	return CompactKeys{State: states.At(n), Log: logs.At(n), Held: helds.At(n)}
}
