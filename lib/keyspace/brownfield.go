package keyspace

import (
	"slices"
	"strings"
)

// Brownfield lets the schema declare keys as they are in a Redis that runs already, so
// that they can be linted, catalogued, locked and audited without renaming one. It
// returns the schema, and stands before the first family:
//
//	var Keys = keyspace.New("legacy").Brownfield()
//
//	var profile = keyspace.Def1[keyspace.Int](Keys, "app.user-{id}", …)
//
// A placeholder may share its level with text then, several may share one, texts are of
// any bytes but braces, words of a list may have colons, and an argument may be [Raw].
// [Lint] has nothing against the style of such names. What makes keys ambiguous stays a
// fault: two families that one key could belong to, and, since "{a}-{b}" does not tell
// where a ends if it can have a '-', a key that can be read with other arguments.
//
// Whether a prefix stands before the keys is the executor's affair, as with other
// schemas.
func (s *Schema) Brownfield() *Schema {
	s.asIs, s.badWords = true, nil
	return s
}

// BadWords replaces the words with which, by [Lint], no key of the schema may begin
// because they say nothing, such as "data" and "tmp". None allows every word. It returns
// the schema; a schema of [Schema.Brownfield] has no bad words of its own.
func (s *Schema) BadWords(words ...string) *Schema {
	s.badWords = slices.Clone(words)
	return s
}

// A place is how far a name was read as one of a family's: each text and each argument
// of the pattern is a part, by turns.
type place struct {
	part  int   // 2i is the text before argument i, 2i+1 the argument; behind all: read whole
	at    int   // bytes that were read of the part
	word  int   // of an argument with words: which one
	state uint8 // of any other: its automaton's
}

// enter appends the places at the beginning of a part.
func (f *Family) enter(part int, to []place) []place {
	switch {
	case part == 2*len(f.parts)-1:
		return append(to, place{part: part})
	case part%2 == 0 && f.parts[part/2] == "":
		return f.enter(part+1, to)
	case part%2 == 1 && f.Args[part/2].Words != nil:
		for w := range f.Args[part/2].Words {
			to = append(to, place{part: part, word: w})
		}
		return to
	}
	return append(to, place{part: part, state: start})
}

// step appends the places behind p after one more byte. Unless exact, an argument may be
// longer than its form allows.
func (f *Family) step(p place, c byte, exact bool, to []place) []place {
	if p.part == 2*len(f.parts)-1 {
		return to
	}
	text := ""
	if p.part%2 == 0 {
		text = f.parts[p.part/2]
	} else if form := &f.Args[p.part/2]; form.Words != nil {
		text = form.Words[p.word]
	} else {
		return f.stepArgument(form, p, c, exact, to)
	}
	if text[p.at] != c {
		return to
	}
	if p.at++; p.at == len(text) {
		return f.enter(p.part+1, to)
	}
	return append(to, p)
}

func (f *Family) stepArgument(form *Form, p place, c byte, exact bool, to []place) []place {
	m := automata[form.Alphabet]
	if p.state = m.next[p.state][c]; p.state == dead {
		return to
	}
	bounded := exact && form.Max > 0
	if p.at++; !bounded { // it is counted on only where the number matters
		p.at = min(p.at, form.Min)
	}
	if m.accepting(p.state) && p.at >= form.Min {
		to = f.enter(p.part+1, to)
	}
	if bounded && p.at == form.Max {
		return to
	}
	return append(to, p)
}

// common returns a shortest name that both families can make. With apart, f and g are
// one family, and it is a name in which an argument can end in two places.
//
// It searches the product of the two languages, at first without longest lengths: they
// make the search large and seldom matter. Where nothing is found then, there is
// nothing; where the name keeps the lengths as well, it is the answer.
func common(f, g *Family, apart bool) (string, bool) {
	name, ok := search(f, g, apart, false, nil)
	if !ok {
		return "", false
	}
	if _, ok := search(f, g, apart, true, []byte(name)); ok {
		return name, true
	}
	return search(f, g, apart, true, nil)
}

// search looks breadth first; along, if set, is the only name to try.
func search(f, g *Family, apart, exact bool, along []byte) (string, bool) {
	type pair struct {
		f, g  place
		apart bool
	}
	type found struct {
		pair
		from, n int // the index of the pair before, and how many bytes led here
		c       byte
	}
	var all []found
	seen := map[pair]bool{}
	add := func(fs, gs []place, from, n int, c byte, differ bool) {
		for _, a := range fs {
			for _, b := range gs {
				p := pair{a, b, apart && (differ || a.part != b.part)}
				if !seen[p] {
					seen[p] = true
					all = append(all, found{p, from, n, c})
				}
			}
		}
	}
	end := func(f *Family) int { return 2*len(f.parts) - 1 }
	bytes := distinct(f, g)
	add(f.enter(0, nil), g.enter(0, nil), -1, 0, 0, false)
	var fs, gs []place
	for i := 0; i < len(all); i++ {
		at := all[i]
		if at.f.part == end(f) && at.g.part == end(g) && at.apart == apart && (along == nil || at.n == len(along)) {
			name := make([]byte, at.n)
			for ; at.n > 0; at = all[at.from] {
				name[at.n-1] = at.c
			}
			return string(name), true
		}
		try := bytes
		if along != nil {
			if at.n == len(along) {
				continue
			}
			try = along[at.n : at.n+1]
		}
		for _, c := range try {
			if fs = f.step(at.f, c, exact, fs[:0]); len(fs) > 0 {
				if gs = g.step(at.g, c, exact, gs[:0]); len(gs) > 0 {
					add(fs, gs, i, at.n+1, c, at.apart)
				}
			}
		}
	}
	return "", false
}

// distinct returns the bytes that have to be tried: those of texts and words, and of all
// others one of each sort that no argument tells apart. Readable ones come first.
func distinct(families ...*Family) (bytes []byte) {
	var used [256]bool
	var machines []*automaton
	for _, f := range families {
		texts := slices.Clone(f.parts)
		for i := range f.Args {
			if f.Args[i].Words == nil {
				machines = append(machines, automata[f.Args[i].Alphabet])
			}
			texts = append(texts, f.Args[i].Words...)
		}
		for _, c := range []byte(strings.Join(texts, "")) {
			used[c] = true
		}
	}
	sorts := map[string]bool{}
	var column []byte
	consider := func(c byte) {
		column = column[:0]
		for _, m := range machines {
			for s := range m.next {
				column = append(column, m.next[s][c])
			}
		}
		if used[c] || !sorts[string(column)] {
			sorts[string(column)] = true
			bytes = append(bytes, c)
		}
	}
	for _, c := range tryFirst {
		consider(c)
	}
	for c := range 256 {
		if !slices.Contains(tryFirst, byte(c)) {
			consider(byte(c))
		}
	}
	return bytes
}
