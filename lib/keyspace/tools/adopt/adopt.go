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

// Options set which keys Read scans, and how fast. The zero Options scan all keys of the database.
type Options struct {
	// Match is a SCAN pattern of physical keys; empty means all.
	Match string
	// Rate is the largest number of names per second; 0 means no limit.
	Rate int
	// Progress, if set, is called after every page with the number of names so far.
	Progress func(names int64)
}

// scanCount is the COUNT of each SCAN.
const scanCount = 1000

// Layout is the result of Read.
type Layout struct {
	Keys     int64    // the number of names
	Families []Family // in the order of their patterns
}

// Family is a proposal for the keys of one pattern.
type Family struct {
	Pattern string // in the syntax of package keyspace
	Args    []Arg
	Keys    int64
	// Types counts the replies to TYPE in the sample. More than one type means that these are two families.
	Types map[string]int
	// Value is the format of all strings of the sample: "number", "JSON" or empty.
	Value string
	// Lasting is the number of sampled keys without a TTL. Longest is the largest remaining TTL of the others.
	Sampled, Lasting int
	Longest          time.Duration
	Examples         []string // up to three physical keys

	padded []string // arguments of type Int that begin with zeros in the sample
	long   string   // an argument with a sampled value that is too long for every type
}

// Arg is an argument of a family.
type Arg struct {
	Name string
	Type string // a type of package keyspace: Int, Text or Raw
}

// Read scans the keys of a Redis: all names, and the values of a few keys of each pattern. It returns an error if it
// cannot scan all servers completely.
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
			names, next, err := o.Scan(ctx, cursor, match, scanCount)
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
	tree.walk("", func(shape string, n *node) {
		if err == nil {
			f := familyOf(shape, n)
			err = f.inspect(ctx, owners, n.sample)
			l.Families = append(l.Families, f)
		}
	})
	return l, err
}

// pause limits the scan to rate names per second.
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

// familyOf converts a shape to a family. Each argument gets the name of the word before it.
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
	anySample := func(i int, is func(string) bool) bool {
		return slices.ContainsFunc(n.sample, func(s sampled) bool {
			found := exact.FindStringSubmatch(s.key)
			return found != nil && is(found[i+1])
		})
	}
	for i, arg := range f.Args {
		switch {
		case arg.Type == "Int":
			if anySample(i, padded.MatchString) {
				f.padded = append(f.padded, arg.Name)
			}
		case anySample(i, func(s string) bool { return len(s) > maxRaw }):
			f.long = arg.Name
		case anySample(i, func(s string) bool { return len(s) > keyspace.MaxText }):
			f.Args[i].Type = "Raw" // a Text of this length enters a key as a hash
		}
	}
	return f
}

// maxRaw is the largest length of a Raw.
var maxRaw = keyspace.Raw{}.SegmentForm().Max

// padded matches a number that Int would format differently.
var padded = regexp.MustCompile(`^-?0[0-9]`)

// inspect reads the types, TTLs and the beginnings of strings of the sample.
func (f *Family) inspect(ctx context.Context, owners []*redis.Owner, sample []sampled) error {
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
			continue // the key was deleted, or the user may not read it
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

// looksLikeJSON reports whether s is JSON. A long value was cut, so only its first byte counts.
func looksLikeJSON(s string) bool {
	if s == "" || s[0] != '{' && s[0] != '[' {
		return false
	}
	return json.Valid([]byte(s)) || len(s) == 4096
}
