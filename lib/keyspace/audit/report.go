package audit

import (
	"time"
)

// The faults that a key can have.
const (
	UnknownKey     = "unknown"         // no family can make this name
	KeyTooLong     = "key_too_long"    // longer than keyspace.MaxKey, prefix included
	WrongType      = "wrong_type"      // TYPE differs from the declared type
	NoLife         = "no_life"         // never expires, but a TTL is declared
	LifeTooLong    = "life_too_long"   // the TTL is larger than declared
	LifeUndeclared = "life_undeclared" // has a TTL, but is declared to never expire
	ValueTooBig    = "value_too_big"   // larger than keyspace.Doc.MaxBytes; except for strings, its memory counts
	Undecodable    = "undecodable"     // the check of the family refuses the value
)

// Faults lists the possible faults of a key, in the order of a report.
var Faults = []string{UnknownKey, WrongType, NoLife, LifeTooLong, LifeUndeclared, ValueTooBig, Undecodable, KeyTooLong}

// A Fault is one fault of one key.
type Fault struct {
	Fault  string `json:"fault"`  // one of Faults
	Family string `json:"family"` // the pattern; for an unknown key, its shape
	Key    string `json:"key"`    // physical; if it is not printable ASCII, it is escaped as in Go
	Detail string `json:"detail,omitempty"`
}

// A Report is the result of an audit. Its JSON is stable: fields may be added, but do not change.
type Report struct {
	Mode    string    `json:"mode"` // "names", "full" or "rdb"
	Prefix  string    `json:"prefix"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`

	Keys    int64 `json:"keys"`    // under the prefix
	Looked  int64 `json:"looked"`  // keys whose type, TTL, memory and value were inspected
	Gone    int64 `json:"gone"`    // keys that were deleted before they were inspected
	Moved   int64 `json:"moved"`   // keys that a cluster moved to another owner during the audit
	Denied  int64 `json:"denied"`  // keys that the user may not read
	Unread  int64 `json:"unread"`  // values of more than one mebibyte, which are not decoded
	Ignored int64 `json:"ignored"` // faults that match Options.Ignore

	Faults   int64     `json:"faults"`   // all faults, including those without an example
	Findings []Finding `json:"findings"` // by fault and family
	Families []Group   `json:"families"` // those with keys, sorted by memory
	Unknown  []Group   `json:"unknown"`  // sorted by number of keys

	Foreign     []Foreign `json:"foreign,omitempty"` // other prefixes, with Options.All
	ForeignKeys int64     `json:"foreign_keys,omitempty"`

	Owners []Owner `json:"owners"`
	Slots  Slots   `json:"slots"`
	Hot    []Hot   `json:"hot,omitempty"` // an audit only has keys that an LFU policy counts
	Ping   Ping    `json:"ping"`
}

// Clean reports whether there are no faults.
func (r *Report) Clean() bool { return r.Faults == 0 }

// A Finding is one fault of one family.
type Finding struct {
	Fault    string  `json:"fault"`
	Family   string  `json:"family"`
	Count    int64   `json:"count"`
	Of       int64   `json:"of"` // the number of keys of the family that were checked for it
	Examples []Fault `json:"examples"`
}

// A Group is a family, or unknown keys of one shape.
type Group struct {
	Family     string           `json:"family"` // pattern or shape
	Owner      string           `json:"owner,omitempty"`
	Type       string           `json:"type,omitempty"`  // declared
	Types      map[string]int64 `json:"types,omitempty"` // of unknown keys: the inspected ones
	Keys       int64            `json:"keys"`
	Looked     int64            `json:"looked"`
	Bytes      int64            `json:"bytes"`       // memory of all keys; an estimate if Looked < Keys
	BytesError int64            `json:"bytes_error"` // the 95 % confidence interval is Bytes ± BytesError
	Largest    int64            `json:"largest"`     // the largest inspected key, in bytes
	LargestKey string           `json:"largest_key,omitempty"`
	Lives      int64            `json:"lives,omitempty"`    // of unknown keys: the number of inspected keys with a TTL
	Examples   []string         `json:"examples,omitempty"` // of unknown keys
}

// Foreign is a prefix of other programs' keys: the first level of their names. If more than ten prefixes differ only in
// numbers or identifiers, they are counted as one shape.
type Foreign struct {
	Prefix string `json:"prefix"`
	Keys   int64  `json:"keys"`
}

// An Owner is one server that owns keys.
type Owner struct {
	Addr       string  `json:"addr"`
	Keys       int64   `json:"keys"`  // under the prefix
	Bytes      int64   `json:"bytes"` // estimated as for the groups
	Ratio      float64 `json:"ratio"` // its keys divided by the mean of all owners
	UsedMemory int64   `json:"used_memory,omitempty"`
}

// Slots shows how evenly keys are distributed over the slots of a cluster. Without a cluster, it shows how they would
// be.
type Slots struct {
	Used     int     `json:"used"`               // the mean number of keys of all slots
	Mean     float64 `json:"mean"`               // keys in each of all slots
	Largest  []Slot  `json:"largest"`            // most keys first
	Heaviest []Slot  `json:"heaviest,omitempty"` // most memory first; only set if every key was inspected
}

// A Slot is a slot with many keys, or much memory.
type Slot struct {
	Slot  int     `json:"slot"`
	Keys  int64   `json:"keys"`
	Ratio float64 `json:"ratio"`           // its keys divided by the mean of all slots
	Bytes int64   `json:"bytes,omitempty"` // likewise, only if every key was inspected
}

// Hot is a key that is used often.
type Hot struct {
	Key       string  `json:"key"`
	Family    string  `json:"family"`
	Frequency int64   `json:"frequency,omitempty"`  // the value of OBJECT FREQ: logarithmic, up to 255
	PerSecond float64 `json:"per_second,omitempty"` // counted by programs that use the key: see redis.DB.HotKeys
}

// Ping has the response times of PINGs in parallel to the audit.
type Ping struct {
	Count  int   `json:"count"`
	P50    int64 `json:"p50_us"`
	P99    int64 `json:"p99_us"`
	Max    int64 `json:"max_us"`
	Paused int64 `json:"paused_ms"` // the sum of the pauses that the audit made to reduce the load
}
