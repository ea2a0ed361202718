package keyspace

import "slices"

// automaton is a deterministic finite automaton over bytes. State 0 is dead and
// state 1 the start; next[0] stays all zero, so that a walk needs no test.
type automaton struct {
	next   [][256]uint8
	accept uint32 // bit n: state n accepts
}

const (
	dead  = 0
	start = 1
)

func (m *automaton) accepts(s string) bool {
	state := uint8(start)
	for i := range len(s) {
		state = m.next[state][s[i]]
	}
	return m.accepting(state)
}

func (m *automaton) accepting(state uint8) bool { return m.accept>>state&1 == 1 }

// on lets every byte of chars lead from one state to another.
func (m *automaton) on(from uint8, chars string, to uint8) {
	for i := range len(chars) {
		m.next[from][chars[i]] = to
	}
}

const (
	decimal = "0123456789"
	hexits  = "0123456789abcdef"
	letters = "abcdefghijklmnopqrstuvwxyz"
	capital = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// automata has the language of each Alphabet, whatever its length.
var automata = [...]*automaton{
	AnyText:   escapedText(),
	Digits:    signedDigits(),
	Hex:       oneOrMore(hexits),
	Base64URL: oneOrMore(letters + capital + decimal + "_-"),
}

func newAutomaton(states int, accept ...uint8) *automaton {
	m := &automaton{next: make([][256]uint8, states)}
	for _, s := range accept {
		m.accept |= 1 << s
	}
	return m
}

func oneOrMore(chars string) *automaton {
	const body = 2
	m := newAutomaton(3, body)
	m.on(start, chars, body)
	m.on(body, chars, body)
	return m
}

func signedDigits() *automaton {
	const minus, body = 2, 3
	m := newAutomaton(4, body)
	m.on(start, "-", minus)
	for _, s := range []uint8{start, minus, body} {
		m.on(s, decimal, body)
	}
	return m
}

// escapedText accepts what AppendEscaped writes and no other spelling of it: a
// plain byte is never escaped, hex digits are lower case, and a '%' that
// escapes nothing is the whole text.
func escapedText() *automaton {
	const body, first, percent, high = 2, 3, 4, 5 // first: after a '%' that may be the whole text
	m := newAutomaton(high+16, body, first)
	m.on(start, "%", first)
	m.on(body, "%", percent)
	for c := range 256 {
		if plain[c] {
			m.next[start][c], m.next[body][c] = body, body
			continue
		}
		hi, lo := hexits[c>>4], hexits[c&15]
		state := uint8(high + c>>4)
		m.next[first][hi], m.next[percent][hi] = state, state
		m.next[state][lo] = body
	}
	return m
}

// tryFirst is every byte a segment can have, the readable ones first, so that
// an example looks like a key.
var tryFirst = func() (order []byte) {
	order = []byte(letters + decimal)
	for c := byte(0x21); c <= 0x7e; c++ {
		if !slices.Contains(order, c) {
			order = append(order, c)
		}
	}
	return order
}()

// intersect returns a shortest string that is of both forms; ok is false when
// there is none.
func intersect(f, g *Form) (s string, ok bool) {
	if f.Words == nil && g.Words != nil {
		f, g = g, f
	}
	if f.Words != nil {
		for _, w := range f.Words {
			if g.match(w) {
				return w, true
			}
		}
		return "", false
	}
	return product(f, g)
}

// product searches the product of two automata breadth first. Both read the
// same bytes, so one length serves both; beyond the longer minimum it is
// counted on only where there is a maximum to keep.
func product(f, g *Form) (string, bool) {
	type pair struct {
		f, g uint8
		n    int
	}
	type step struct {
		pair
		from int // index of the step before
		c    byte
	}
	least, most := max(f.Min, g.Min), f.Max
	if most == 0 || g.Max > 0 && g.Max < most {
		most = g.Max
	}
	a, b := automata[f.Alphabet], automata[g.Alphabet]
	steps := []step{{pair: pair{start, start, 0}}}
	seen := map[pair]bool{steps[0].pair: true}
	for i := 0; i < len(steps); i++ {
		at := steps[i]
		if a.accepting(at.f) && b.accepting(at.g) && at.n >= least {
			var s []byte
			for ; i > 0; i = steps[i].from {
				s = append(s, steps[i].c)
			}
			slices.Reverse(s)
			return string(s), true
		}
		n := at.n + 1
		if most > 0 && n > most {
			continue
		}
		if most == 0 {
			n = min(n, least)
		}
		for _, c := range tryFirst {
			to := pair{a.next[at.f][c], b.next[at.g][c], n}
			if to.f != dead && to.g != dead && !seen[to] {
				seen[to] = true
				steps = append(steps, step{to, i, c})
			}
		}
	}
	return "", false
}
