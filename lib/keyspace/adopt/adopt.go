package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Options say which keys are read, and how gently. The zero Options read all keys of the
// database.
type Options struct {
	// Match is a pattern of physical keys, as SCAN has it; empty means all.
	Match string
	// Rate bounds how many names are read per second; 0 means no bound.
	Rate int
	// Progress, if set, is told after every page how many names were read.
	Progress func(names int64)
}

// page is how many names one SCAN looks at.
const page = 1000

// Layout is what keys there are.
type Layout struct {
	Keys     int64    // names that were read
	Families []Family // in the order of their patterns
}

// Family is a proposal for keys of one pattern.
type Family struct {
	Pattern string // as package keyspace has it
	Args    []Arg
	Keys    int64
	// Types counts what TYPE said of a sample; more than one of them are two families in one.
	Types map[string]int
	// Value is what the strings of the sample are: "number", "JSON" or empty.
	Value string
	// Lasting is how many keys of the sample have no life, and Longest the longest life of the
	// others that is left.
	Sampled, Lasting int
	Longest          time.Duration
	Examples         []string // physical keys, up to three

	padded []string // arguments of Int that begin with zeros in the sample
	long   string   // an argument that is longer in it than any type holds
}

// Arg is what differs between the keys of a family.
type Arg struct {
	Name string
	Type string // of package keyspace: Int, Text or Raw
}

// Read reads the keys of a Redis: the names of all, and what is in a few of each pattern. A server that
// cannot be read to its end is an error.
func Read(ctx context.Context, db *redis.DB, opt Options) (*Layout, error) {
	if opt.Rate < 0 {
		return nil, errors.New("adopt: a negative rate")
	}
	owners, err := db.Owners(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, o := range owners {
			o.Close()
		}
	}()
	tree, began := &node{}, time.Now()
	match := opt.Match
	if match == "" {
		match = "*"
	}
	for i, o := range owners {
		for cursor := uint64(0); ; {
			names, next, err := o.Scan(ctx, cursor, match, page)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				tree.add(name, i)
			}
			if opt.Progress != nil {
				opt.Progress(tree.keys)
			}
			if cursor = next; cursor == 0 {
				break
			}
			if err := pause(ctx, began, tree.keys, opt.Rate); err != nil {
				return nil, err
			}
		}
	}
	tree.settle()
	l := &Layout{Keys: tree.keys}
	tree.each("", func(shape string, n *node) {
		if err == nil {
			f := familyOf(shape, n)
			err = f.look(ctx, owners, n.sample)
			l.Families = append(l.Families, f)
		}
	})
	return l, err
}

// pause keeps to a rate of names per second.
func pause(ctx context.Context, began time.Time, names int64, rate int) error {
	if rate == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(time.Until(began.Add(time.Duration(float64(names) / float64(rate) * float64(time.Second)))))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// familyOf names the arguments of a shape by the word before each.
func familyOf(shape string, n *node) Family {
	f := Family{Keys: n.ends, Types: map[string]int{}}
	for _, s := range n.sample[:min(3, len(n.sample))] {
		f.Examples = append(f.Examples, s.key)
	}
	var b, match strings.Builder
	word, used := "", map[string]int{}
	for i := range len(shape) {
		kind := shape[i : i+1]
		if !isArgument(kind) {
			b.WriteByte(shape[i])
			match.WriteString(regexp.QuoteMeta(kind))
			if c := shape[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
				word += strings.ToLower(kind)
			} else if word != "" && i+1 < len(shape) && !isArgument(shape[i+1:i+2]) && shape[i+1] != '{' {
				word = ""
			}
			continue
		}
		name := word
		if name == "" {
			name = "id"
		}
		if used[name]++; used[name] > 1 {
			name += strconv.Itoa(used[name])
		}
		word = ""
		arg, like := Arg{Name: name, Type: "Text"}, "(?s:(.+))"
		switch kind {
		case number:
			arg.Type, like = "Int", "(-?[0-9]+)"
		case raw:
			arg.Type = "Raw"
		}
		f.Args = append(f.Args, arg)
		b.WriteString("{" + name + "}")
		match.WriteString(like)
	}
	f.Pattern = b.String()
	exact := regexp.MustCompile("^" + match.String() + "$")
	some := func(i int, is func(string) bool) bool {
		return slices.ContainsFunc(n.sample, func(s sampled) bool {
			found := exact.FindStringSubmatch(s.key)
			return found != nil && is(found[i+1])
		})
	}
	for i, arg := range f.Args {
		switch {
		case arg.Type == "Int":
			if some(i, padded.MatchString) {
				f.padded = append(f.padded, arg.Name)
			}
		case some(i, func(s string) bool { return len(s) > longestRaw }):
			f.long = arg.Name
		case some(i, func(s string) bool { return len(s) > keyspace.MaxText }):
			f.Args[i].Type = "Raw" // of a Text only the hash would enter the key
		}
	}
	return f
}

// longestRaw is what a Raw holds at most.
var longestRaw = keyspace.Raw{}.SegmentForm().Max

// padded is a number as an Int is not written.
var padded = regexp.MustCompile(`^-?0[0-9]`)

// look asks for types, lives and the beginnings of strings.
func (f *Family) look(ctx context.Context, owners []*redis.Owner, sample []sampled) error {
	numbers, texts, strs := 0, 0, 0
	for _, s := range sample {
		replies := owners[s.owner].Do(ctx, []string{"TYPE", s.key}, []string{"PTTL", s.key}, []string{"GETRANGE", s.key, "0", "4095"})
		for _, r := range replies {
			if _, refused := errors.AsType[redis.ServerError](r.Err); r.Err != nil && !refused {
				return r.Err
			}
		}
		typ, life := replies[0].Str, replies[1].N
		if replies[0].Err != nil || typ == "none" {
			continue // it is gone, or not for this user to see
		}
		f.Sampled++
		f.Types[typ]++
		if replies[1].Err == nil && life < 0 {
			f.Lasting++
		}
		f.Longest = max(f.Longest, time.Duration(life)*time.Millisecond)
		if typ != "string" {
			continue
		}
		strs++
		value := replies[2].Str
		if _, err := strconv.ParseInt(value, 10, 64); err == nil {
			numbers++
		} else if looksLikeJSON(value) {
			texts++
		}
	}
	switch {
	case strs > 0 && numbers == strs:
		f.Value = "number"
	case strs > 0 && texts == strs:
		f.Value = "JSON"
	}
	return nil
}

// looksLikeJSON takes a long value that was cut for what its beginning is.
func looksLikeJSON(s string) bool {
	if s == "" || s[0] != '{' && s[0] != '[' {
		return false
	}
	return json.Valid([]byte(s)) || len(s) == 4096
}
