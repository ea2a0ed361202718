package keyspace

import (
	"slices"
	"strings"
)

// automaton is a deterministic finite automaton over bytes. All entries of next[dead] are zero, so a walk needs no
// check for the dead state.
type automaton struct {
	next   [][256]uint8
	accept uint64    // bit n is set if state n accepts
	plain  [256]bool // bytes that lead from start to body, and from body to body
}

// The states that all automata have.
const (
	dead = iota
	start
	body
	firstOwn // the first state that only one automaton has
)

// accepts reports whether m accepts s. It skips leading plain bytes without a table walk, because most arguments
// consist of such bytes only.
func (m *automaton) accepts(s string) bool {
	i := 0
	for i < len(s) && m.plain[s[i]] {
		i++
	}
	state := uint8(body)
	if i == 0 {
		state = start
	}
	for ; i < len(s); i++ {
		state = m.next[state][s[i]]
	}
	return m.accepting(state)
}

func (m *automaton) accepting(state uint8) bool { return m.accept>>state&1 == 1 }

// connect adds a transition between two states for every byte of chars.
func (m *automaton) connect(from uint8, chars string, to uint8) {
	for i := range len(chars) {
		m.next[from][chars[i]] = to
	}
}

func (m *automaton) finish() *automaton {
	for c := range m.plain {
		m.plain[c] = m.next[start][c] == body && m.next[body][c] == body
	}
	return m
}

const (
	decimal = "0123456789"
	hexits  = "0123456789abcdef"
	letters = "abcdefghijklmnopqrstuvwxyz"
	capital = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

	base64url = letters + capital + decimal + "_-"
)

// automata maps each Alphabet to its language, without limits on the length.
var automata = [...]*automaton{
	AnyText:   escapedText(),
	Digits:    signedDigits(),
	Hex:       oneOrMore(hexits),
	Base64URL: oneOrMore(base64url),
	RawText:   oneOrMore(allBut("{}")),
}

func allBut(chars string) string {
	var b []byte
	for c := range 256 {
		if strings.IndexByte(chars, byte(c)) < 0 {
			b = append(b, byte(c))
		}
	}
	return string(b)
}

func newAutomaton(states int, accept ...uint8) *automaton {
	m := &automaton{next: make([][256]uint8, states)}
	for _, s := range accept {
		m.accept |= 1 << s
	}
	return m
}

func oneOrMore(chars string) *automaton {
	m := newAutomaton(firstOwn, body)
	m.connect(start, chars, body)
	m.connect(body, chars, body)
	return m.finish()
}

func signedDigits() *automaton {
	const minus = firstOwn
	m := newAutomaton(firstOwn+1, body)
	m.connect(start, "-", minus)
	for _, s := range []uint8{start, minus, body} {
		m.connect(s, decimal, body)
	}
	return m.finish()
}

// escapedText accepts exactly the output of appendEscaped: a plain byte is never escaped, hex digits are lower case,
// and a lone '%' is the empty text. It also accepts the form of a long Text, which is "%%" and a hash.
func escapedText() *automaton {
	const (
		first   = firstOwn  // after a '%' that may be the whole text
		percent = first + 1 // after any other '%'
		high    = percent + 1
		hash    = high + 16 // after "%%"
	)
	m := newAutomaton(hash+hashLen+1, body, first, hash+hashLen)
	m.connect(start, "%", first)
	m.connect(body, "%", percent)
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
	m.connect(first, "%", hash)
	for i := range uint8(hashLen) {
		m.connect(hash+i, base64url, hash+i+1)
	}
	return m.finish()
}

// bytesInOrder lists every byte that a segment can have. Readable bytes come first, so that examples look like keys.
var bytesInOrder = func() (order []byte) {
	order = []byte(letters + decimal)
	for c := byte(0x21); c <= 0x7e; c++ {
		if !slices.Contains(order, c) {
			order = append(order, c)
		}
	}
	return order
}()

// intersect returns a shortest string that has both forms; ok is false if there is none.
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

// product searches the product of two automata breadth first. Both read the same bytes, so one length serves both.
// Above the larger minimum, the length is counted only if there is a maximum.
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
		for _, c := range bytesInOrder {
			to := pair{a.next[at.f][c], b.next[at.g][c], n}
			if to.f != dead && to.g != dead && !seen[to] {
				seen[to] = true
				steps = append(steps, step{to, i, c})
			}
		}
	}
	return "", false
}
