package keyspace

import (
	"slices"
	"strings"
)

// Brownfield lets the schema declare the keys of an existing Redis, so that they can be linted, catalogued, locked and
// audited without a rename. Call it before the first family is declared. It returns the schema:
//
//	var Keys = keyspace.New("legacy").Brownfield()
//
//	var profile = keyspace.Def1[keyspace.Int](Keys, "app.user-{id}", …)
//
// In such a schema, a placeholder may share its level with text and with other placeholders. Texts may contain every
// byte except braces, words of a list may contain colons, and an argument may be [Raw]. [Lint] does not check the style
// of the names. It still reports ambiguous keys: a key that could belong to two families, and a key that can be read
// with other arguments. An example of the second is "{a}-{b}" if a can contain '-', because the end of a is then not
// clear.
//
// The executor decides, as for other schemas, whether the keys have a prefix.
func (s *Schema) Brownfield() *Schema {
	s.brownfield, s.badWords = true, nil
	return s
}

// BadWords replaces the list of words that no key of the schema may begin with, because they have no meaning, such as
// "data" and "tmp". [Lint] checks them. Without arguments, every word is allowed. It returns the schema. A
// [Schema.Brownfield] schema has no bad words by default.
func (s *Schema) BadWords(words ...string) *Schema {
	s.badWords = slices.Clone(words)
	return s
}

// A position is the state of reading a name as a name of a family. The texts and the arguments of the pattern are its
// parts, alternating.
type position struct {
	part  int   // 2i is the text before argument i, 2i+1 is the argument; the largest number means that the name was read completely
	at    int   // the number of bytes read of this part
	word  int   // the index of the word, for an argument with words
	state uint8 // the state of the automaton, for other arguments
}

// enter appends the positions at the beginning of a part.
func (f *Family) enter(part int, to []position) []position {
	switch {
	case part == 2*len(f.parts)-1:
		return append(to, position{part: part})
	case part%2 == 0 && f.parts[part/2] == "":
		return f.enter(part+1, to)
	case part%2 == 1 && f.Args[part/2].Words != nil:
		for w := range f.Args[part/2].Words {
			to = append(to, position{part: part, word: w})
		}
		return to
	}
	return append(to, position{part: part, state: start})
}

// step appends the positions after p and one more byte. Unless exact is set, an argument may be longer than its form
// allows.
func (f *Family) step(p position, c byte, exact bool, to []position) []position {
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

func (f *Family) stepArgument(form *Form, p position, c byte, exact bool, to []position) []position {
	m := automata[form.Alphabet]
	if p.state = m.next[p.state][c]; p.state == dead {
		return to
	}
	bounded := exact && form.Max > 0
	if p.at++; !bounded { // above the minimum, count only if there is a maximum
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

// sharedName returns a shortest name that both families can make. If ambiguous is set, f and g are the same family, and
// the result is a name that can be split into arguments in two ways.
//
// It searches the product of the two languages, at first without maximum lengths, because these make the search large
// and seldom matter. If that search finds no name, there is none. If the name also respects the maximum lengths, it is
// the result.
func sharedName(f, g *Family, ambiguous bool) (string, bool) {
	name, ok := search(f, g, ambiguous, false, nil)
	if !ok {
		return "", false
	}
	if _, ok := search(f, g, ambiguous, true, []byte(name)); ok {
		return name, true
	}
	return search(f, g, ambiguous, true, nil)
}

// search is a breadth-first search. If along is set, it is the only name that search tries.
func search(f, g *Family, ambiguous, exact bool, along []byte) (string, bool) {
	type pair struct {
		f, g      position
		ambiguous bool
	}
	type found struct {
		pair
		from, n int // the index of the pair before, and the number of bytes read
		c       byte
	}
	var all []found
	seen := map[pair]bool{}
	add := func(fs, gs []position, from, n int, c byte, differ bool) {
		for _, a := range fs {
			for _, b := range gs {
				p := pair{a, b, ambiguous && (differ || a.part != b.part)}
				if !seen[p] {
					seen[p] = true
					all = append(all, found{p, from, n, c})
				}
			}
		}
	}
	end := func(f *Family) int { return 2*len(f.parts) - 1 }
	bytes := bytesToTry(f, g)
	add(f.enter(0, nil), g.enter(0, nil), -1, 0, 0, false)
	var fs, gs []position
	for i := 0; i < len(all); i++ {
		at := all[i]
		if at.f.part == end(f) && at.g.part == end(g) && at.ambiguous == ambiguous && (along == nil || at.n == len(along)) {
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
					add(fs, gs, i, at.n+1, c, at.ambiguous)
				}
			}
		}
	}
	return "", false
}

// bytesToTry returns the bytes that a search has to try: the bytes of texts and words, and one byte of each class that
// all automata treat alike. Readable bytes come first.
func bytesToTry(families ...*Family) (bytes []byte) {
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
	for _, c := range bytesInOrder {
		consider(c)
	}
	for c := range 256 {
		if !slices.Contains(bytesInOrder, byte(c)) {
			consider(byte(c))
		}
	}
	return bytes
}
