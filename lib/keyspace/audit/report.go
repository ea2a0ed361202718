package audit

import (
	"time"
)

// The faults that a key can have.
const (
	UnknownKey     = "unknown"         // no family has such a name
	KeyTooLong     = "key_too_long"    // longer than keyspace.MaxKey, prefix included
	WrongType      = "wrong_type"      // TYPE answers otherwise than declared
	NoLife         = "no_life"         // lives for ever, and a life is declared
	LifeTooLong    = "life_too_long"   // lives longer than declared
	LifeUndeclared = "life_undeclared" // will expire, and is declared to live for ever
	ValueTooBig    = "value_too_big"   // larger than keyspace.Doc.MaxBytes; of what is no string, its memory
	Undecodable    = "undecodable"     // the family's check refuses the value
)

// Faults lists what can be wrong with a key, in the order in which a report shows
// it.
var Faults = []string{UnknownKey, WrongType, NoLife, LifeTooLong, LifeUndeclared, ValueTooBig, Undecodable, KeyTooLong}

// A Fault is one thing that is wrong with one key.
type Fault struct {
	Fault  string `json:"fault"`  // one of Faults
	Family string `json:"family"` // the pattern; of an unknown key, its shape
	Key    string `json:"key"`    // physical; what is not printable ASCII is escaped as in Go
	Detail string `json:"detail,omitempty"`
}

// A Report is the outcome of an audit. Its JSON is stable: fields are added, never
// changed.
type Report struct {
	Mode    string    `json:"mode"` // "names", "full" or "rdb"
	Prefix  string    `json:"prefix"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`

	Keys    int64 `json:"keys"`    // under the prefix
	Looked  int64 `json:"looked"`  // keys whose type, life, memory and value were looked at
	Gone    int64 `json:"gone"`    // keys that were gone when they were looked at
	Moved   int64 `json:"moved"`   // keys that a cluster moved to another owner meanwhile
	Denied  int64 `json:"denied"`  // keys that the user may not look at
	Unread  int64 `json:"unread"`  // values of more than a mebibyte, which are not decoded
	Ignored int64 `json:"ignored"` // faults that Options.Ignore let pass

	Faults   int64     `json:"faults"`   // all, also those of which no example is shown
	Findings []Finding `json:"findings"` // by fault and family
	Families []Group   `json:"families"` // those with keys, by memory
	Unknown  []Group   `json:"unknown"`  // by number of keys

	Foreign     []Foreign `json:"foreign,omitempty"` // other prefixes, with Options.All
	ForeignKeys int64     `json:"foreign_keys,omitempty"`

	Owners []Owner `json:"owners"`
	Slots  Slots   `json:"slots"`
	Hot    []Hot   `json:"hot,omitempty"` // an audit itself has those that an LFU policy counts
	Ping   Ping    `json:"ping"`
}

// Clean reports whether nothing is wrong.
func (r *Report) Clean() bool { return r.Faults == 0 }

// A Finding is one fault of one family.
type Finding struct {
	Fault    string  `json:"fault"`
	Family   string  `json:"family"`
	Count    int64   `json:"count"`
	Of       int64   `json:"of"` // keys of the family that were looked at for it
	Examples []Fault `json:"examples"`
}

// A Group is a family, or unknown keys of one shape.
type Group struct {
	Family     string           `json:"family"` // pattern or shape
	Owner      string           `json:"owner,omitempty"`
	Type       string           `json:"type,omitempty"`  // declared
	Types      map[string]int64 `json:"types,omitempty"` // of unknown keys: those looked at
	Keys       int64            `json:"keys"`
	Looked     int64            `json:"looked"`
	Bytes      int64            `json:"bytes"`       // memory of all keys; an estimate where Looked < Keys
	BytesError int64            `json:"bytes_error"` // Bytes is within ± this, 19 times out of 20
	Largest    int64            `json:"largest"`     // bytes, of those looked at
	LargestKey string           `json:"largest_key,omitempty"`
	Lives      int64            `json:"lives,omitempty"`    // of unknown keys: those looked at that will expire
	Examples   []string         `json:"examples,omitempty"` // of unknown keys
}

// Foreign is a prefix of other programs' keys, the first level of their names. More than
// ten that differ in numbers or identifiers alone are one shape, as of unknown keys.
type Foreign struct {
	Prefix string `json:"prefix"`
	Keys   int64  `json:"keys"`
}

// An Owner is one server that owns keys.
type Owner struct {
	Addr       string  `json:"addr"`
	Keys       int64   `json:"keys"`  // under the prefix
	Bytes      int64   `json:"bytes"` // estimated as for the groups
	Ratio      float64 `json:"ratio"` // keys against the mean of all owners
	UsedMemory int64   `json:"used_memory,omitempty"`
}

// Slots says how evenly keys lie over the slots of a cluster, be it the one there
// is or one there may be.
type Slots struct {
	Used     int     `json:"used"`               // slots with keys, of 16,384
	Mean     float64 `json:"mean"`               // keys in each of all slots
	Largest  []Slot  `json:"largest"`            // most keys first
	Heaviest []Slot  `json:"heaviest,omitempty"` // most memory first; known where every key was looked at
}

// A Slot is one with many keys, or much memory.
type Slot struct {
	Slot  int     `json:"slot"`
	Keys  int64   `json:"keys"`
	Ratio float64 `json:"ratio"`           // keys against the mean of all slots
	Bytes int64   `json:"bytes,omitempty"` // likewise
}

// Hot is a key that is used much.
type Hot struct {
	Key       string  `json:"key"`
	Family    string  `json:"family"`
	Frequency int64   `json:"frequency,omitempty"`  // as OBJECT FREQ has it: logarithmic, up to 255
	PerSecond float64 `json:"per_second,omitempty"` // as programs count that use it: see redis.DB.HotKeys
}

// Ping is how long PINGs took that were sent beside the audit.
type Ping struct {
	Count  int   `json:"count"`
	P50    int64 `json:"p50_us"`
	P99    int64 `json:"p99_us"`
	Max    int64 `json:"max_us"`
	Paused int64 `json:"paused_ms"` // how long the audit held still for the server's sake
}
