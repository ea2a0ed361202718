package audit

import (
	"errors"
	"time"
)

// Options set the depth and the speed of an audit. The zero value parses every name and inspects a sample.
type Options struct {
	// Full inspects every key instead of a sample. It takes several times as long.
	Full bool

	// All also counts the keys of other prefixes, by their first level. If that level is an identifier, they are
	// counted by its shape. They are never judged.
	All bool

	// Ignore are patterns of logical keys, with '*' and '?', whose faults are not reported, only counted.
	Ignore []string

	// Samples is the number of inspected keys of each family and each unknown shape; 0 means 1,000.
	Samples int

	// Examples is the largest number of example keys of a finding or a shape; 0 means 5.
	Examples int

	// Rate is the largest number of names per second; 0 means that only MaxPing limits the speed.
	Rate int

	// MaxPing is the longest time for a PING in parallel to the audit; the audit slows down if a PING takes longer. 0
	// means 2 ms.
	MaxPing time.Duration

	// Found, if set, is called with every fault when it is found, whereas the report only counts them and shows
	// examples. One goroutine at a time calls it. If it returns an error, the audit ends.
	Found func(Fault) error

	// Progress, if set, is called with the progress of the audit after every page.
	Progress func(Progress)

	// NoPrefix is for a Redis whose keys have no prefix: the whole name of each key is the declared name, and the audit
	// includes every key of the database. See keyspace.Schema.Brownfield.
	NoPrefix bool

	// Prefix and DB select the keys of a dump file: those under Prefix ("stoa" if empty) in database number DB. A live
	// audit gets both from its connection.
	Prefix string
	DB     int
}

// Progress is the progress of an audit.
type Progress struct {
	Part   float64 // from 0 to 1
	Keys   int64   // names read so far
	Faults int64
}

const (
	defaultSamples  = 1000
	defaultExamples = 5
	defaultMaxPing  = 2 * time.Millisecond
)

// settle replaces zero values with their defaults, and returns an error for invalid options.
func (o *Options) settle() error {
	if o.Samples < 0 || o.Examples < 0 || o.Rate < 0 || o.MaxPing < 0 {
		return errors.New("audit: an option is negative")
	}
	for _, p := range o.Ignore {
		if p == "" {
			return errors.New("audit: an Ignore pattern is empty")
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

// ignored reports whether the faults of a key are ignored.
func (o *Options) ignored(logical string) bool {
	for _, p := range o.Ignore {
		if match(p, logical) {
			return true
		}
	}
	return false
}

// match reports whether s matches a pattern. '*' matches any text and '?' any byte; every other byte matches itself.
func match(pattern, s string) bool {
	star, from := -1, 0 // where to continue if the text after the last '*' does not match
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
