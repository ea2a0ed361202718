package audit

import (
	"errors"
	"time"
)

// Options says how thorough and how gentle an audit is. The zero value parses
// every name and looks at a sample.
type Options struct {
	// Full looks at every key and not at a sample. It takes several times as long.
	Full bool

	// All counts the keys of other prefixes, too, by their first level or, where that
	// is an identifier, by its shape. They are never judged.
	All bool

	// Ignore are patterns of logical keys, with '*' and '?', that are never
	// reported as a fault. They are counted.
	Ignore []string

	// Samples is how many keys of each family and each unknown shape are looked
	// at; 0 means 1,000.
	Samples int

	// Examples is how many keys a finding and a shape name; 0 means 5.
	Examples int

	// Rate bounds how many names are read per second; 0 means that MaxPing alone
	// decides.
	Rate int

	// MaxPing is how long a PING beside the audit may take before it slows down; 0
	// means 2 ms.
	MaxPing time.Duration

	// Found, if set, is told of every single fault as it is found, while the report
	// counts them and shows examples. It is called by one goroutine at a time; an
	// error ends the audit.
	Found func(Fault) error

	// Progress, if set, is told how far the audit is, after every page.
	Progress func(Progress)

	// NoPrefix takes the whole name of each key for the one that is declared, for a
	// Redis whose keys have no prefix; see keyspace.Schema.Brownfield. Every key of the
	// database is looked at then.
	NoPrefix bool

	// Prefix and DB say which keys of a dump file are meant: those behind Prefix
	// ("stoa" if empty) in database number DB. A live audit takes both from its
	// connection.
	Prefix string
	DB     int
}

// Progress is how far an audit is.
type Progress struct {
	Part   float64 // done, of 1
	Keys   int64   // names read so far
	Faults int64
}

const (
	defaultSamples  = 1000
	defaultExamples = 5
	defaultMaxPing  = 2 * time.Millisecond
)

// settle fills in what zero means and refuses what cannot be meant.
func (o *Options) settle() error {
	if o.Samples < 0 || o.Examples < 0 || o.Rate < 0 || o.MaxPing < 0 {
		return errors.New("audit: an option is negative")
	}
	for _, p := range o.Ignore {
		if p == "" {
			return errors.New("audit: an empty pattern ignores nothing")
		}
	}
	if o.Samples == 0 {
		o.Samples = defaultSamples
	}
	if o.Examples == 0 {
		o.Examples = defaultExamples
	}
	if o.MaxPing == 0 {
		o.MaxPing = defaultMaxPing
	}
	switch {
	case o.NoPrefix:
		o.Prefix = ""
	case o.Prefix == "":
		o.Prefix = "stoa"
	}
	return nil
}

// ignored reports whether a key is not to be judged.
func (o *Options) ignored(logical string) bool {
	for _, p := range o.Ignore {
		if match(p, logical) {
			return true
		}
	}
	return false
}

// match reports whether s is of a pattern in which '*' is any text and '?' any
// byte; all else stands for itself.
func match(pattern, s string) bool {
	star, from := -1, 0 // where to go on when what followed the last '*' did not fit
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
