package legacy

import "github.com/stoa-dev/stoa/lib/keyspace"

// UserID is a type of the program.
type UserID struct{ keyspace.Int }

// The proposal of "keyspace adopt".
var (
	Keys    = keyspace.New("legacy")
	appUser = keyspace.Def1[UserID](Keys, "app.user-{user}")
	pair    = keyspace.Def2[keyspace.Int, keyspace.Text](Keys, "pair:{{a}}:{b}")
	mail    = keyspace.Def1[keyspace.Hashed](Keys, "mail:{address}")
	ids     = keyspace.Def1[keyspace.Int](Keys, "id_{id}")
)
