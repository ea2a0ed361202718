package adopt

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Variable parts of keys are replaced by one of these bytes. No literal part contains them, because a level with a
// control character becomes raw.
const (
	number     = "\x01"
	identifier = "\x02"
	text       = "\x03"
	raw        = "\x04" // contains bytes that package keyspace would escape
)

const (
	// maxLiteralWords is the largest number of words at one position that are certainly literals. More words may be
	// arguments.
	maxLiteralWords = 24
	// maxKeysPerArgument is the largest average number of keys of a word that is an argument.
	maxKeysPerArgument = 16
	// maxWords bounds the tree: if one position has more words, they are arguments.
	maxWords = 4096
	// maxWordLen is the largest length of a word.
	maxWordLen = 40
)

// node is a position in the names of keys: it has all possible continuations of a beginning.
type node struct {
	keys     int64 // keys that go through this node
	ends     int64 // keys that end at this node
	sample   []sampled
	children map[string]*node
	words    int    // the number of children that are words
	folded   bool   // whether words are arguments here
	first    string // the number or identifier in the first key
	varies   bool   // whether another key had another value
}

// sampled is a key and the index of its server.
type sampled struct {
	key   string
	owner int
}

// maxSamples is the largest number of sampled keys of a node.
const maxSamples = 20

func (n *node) add(key string, owner int) {
	n.keys++
	for _, level := range levels(key) {
		shape := shapeOf(level)
		if isWord(shape) && n.folded {
			shape = text
		}
		child := n.children[shape]
		if child == nil {
			child = &node{first: level}
			if n.children == nil {
				n.children = map[string]*node{}
			}
			n.children[shape] = child
			if isWord(shape) {
				n.words++
			}
		}
		child.varies = child.varies || child.first != level
		child.keys++
		if n.words > maxWords {
			n.fold()
			child = n.children[text]
		}
		n = child
	}
	n.ends++
	if len(n.sample) < maxSamples {
		n.sample = append(n.sample, sampled{key, owner})
	}
}

// levels splits a key at its separators and keeps the separators; '-' and '_' are parts of a level.
func levels(key string) (all []string) {
	from := 0
	for i := range len(key) {
		if !inLevel(key[i]) {
			if from < i {
				all = append(all, key[from:i])
			}
			all, from = append(all, key[i:i+1]), i+1
		}
	}
	if from < len(key) {
		all = append(all, key[from:])
	}
	return all
}

func inLevel(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c >= 0x80
}

var (
	uuid      = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	digits    = regexp.MustCompile(`^-?[0-9]+$`)
	hex       = regexp.MustCompile(`^[0-9a-f]{16,}$`)
	leading   = regexp.MustCompile(`^[A-Za-z]+[-_]`)            // "user-" of "user-17"
	versioned = regexp.MustCompile(`^[A-Za-z]{1,4}[0-9]{1,2}$`) // "v2", "md5", "s3"
)

// shapeOf replaces the variable parts of a level.
func shapeOf(level string) string {
	switch {
	case len(level) == 1 && !inLevel(level[0]):
		if level[0] < ' ' {
			return raw
		}
		return level // a separator
	case uuid.MatchString(level), hex.MatchString(level):
		return identifier
	case digits.MatchString(level):
		return number
	case versioned.MatchString(level):
		return level
	}
	if head := leading.FindString(level); head != "" {
		if len(head) == len(level) {
			return level
		}
		if rest := shapeOf(level[len(head):]); !isWord(rest) || !strings.ContainsAny(rest, "0123456789") {
			return head + rest
		}
	}
	if len(level) >= 8 && mixed(level) {
		return identifier
	}
	if strings.ContainsFunc(level, func(r rune) bool { return r >= 0x80 }) {
		return raw
	}
	if len(level) > maxWordLen {
		return text
	}
	// "week202647", "shard_12_x"
	var b strings.Builder
	for i := 0; i < len(level); i++ {
		if level[i] < '0' || level[i] > '9' {
			b.WriteByte(level[i])
			continue
		}
		b.WriteString(number)
		for i+1 < len(level) && level[i+1] >= '0' && level[i+1] <= '9' {
			i++
		}
	}
	return b.String()
}

// mixed reports whether digits, lower-case and upper-case letters alternate as in a random identifier.
func mixed(s string) bool {
	class := func(c byte) int {
		switch {
		case c >= '0' && c <= '9':
			return 1
		case c >= 'a' && c <= 'z':
			return 2
		case c >= 'A' && c <= 'Z':
			return 3
		}
		return 0
	}
	changes, last := 0, 0
	for i := range len(s) {
		if c := class(s[i]); c != 0 {
			if last != 0 && c != last {
				changes++
			}
			last = c
		}
	}
	return changes >= 3
}

// isWord reports whether a shape is a level without an argument.
func isWord(shape string) bool {
	return !strings.ContainsAny(shape, number+identifier+text+raw) && (len(shape) > 1 || inLevel(shape[0]))
}

func isArgument(shape string) bool {
	return shape == number || shape == identifier || shape == text || shape == raw
}

// fold converts the words of a node to arguments.
func (n *node) fold() {
	n.folded, n.words = true, 0
	for _, shape := range slices.Sorted(maps.Keys(n.children)) {
		if isWord(shape) {
			n.move(shape, text)
		}
	}
}

// move merges one child into another.
func (n *node) move(from, to string) {
	child := n.children[from]
	delete(n.children, from)
	if other := n.children[to]; other != nil {
		other.merge(child)
		other.varies = true
	} else {
		n.children[to] = child
	}
}

func (n *node) merge(o *node) {
	n.keys += o.keys
	n.ends += o.ends
	n.sample = append(n.sample, o.sample[:min(len(o.sample), maxSamples-len(n.sample))]...)
	n.varies = n.varies || o.varies || n.first != o.first
	for shape, child := range o.children {
		switch own := n.children[shape]; {
		case own != nil:
			own.merge(child)
		default:
			if n.children == nil {
				n.children = map[string]*node{}
			}
			n.children[shape] = child
			if isWord(shape) {
				n.words++
			}
		}
	}
}

// settle decides which parts are arguments, after all names were added.
func (n *node) settle() {
	if n.words > maxLiteralWords {
		var keys int64
		for shape, child := range n.children {
			if isWord(shape) {
				keys += child.keys
			}
		}
		if keys <= maxKeysPerArgument*int64(n.words) {
			n.fold()
		}
	}
	// The widest argument absorbs the others, because an identifier may happen to be a number.
	widest := ""
	for _, shape := range []string{number, identifier, text, raw} {
		if n.children[shape] == nil {
			continue
		}
		if widest != "" {
			n.move(widest, shape)
		}
		widest = shape
	}
	// An identifier may look like "abc-{id}", and no key shows which of the two it is.
	if widest != "" && widest != number {
		all := n.children[widest].keys
		for _, shape := range slices.Sorted(maps.Keys(n.children)) {
			if child := n.children[shape]; !isArgument(shape) && !isWord(shape) && inLevel(shape[0]) && child.keys <= all {
				n.move(shape, widest)
			}
		}
	}
	// A number that is the same in all keys is a part of the name.
	for _, shape := range slices.Sorted(maps.Keys(n.children)) {
		child := n.children[shape]
		if !child.varies && child.keys > 1 && strings.Contains(shape, number) {
			n.move(shape, child.first)
		}
	}
	for _, child := range n.children {
		child.settle()
	}
}

// walk calls fn with the shape of every family, in the order of their names.
func (n *node) walk(shape string, fn func(shape string, n *node)) {
	if n.ends > 0 {
		fn(shape, n)
	}
	for _, s := range slices.Sorted(maps.Keys(n.children)) {
		n.children[s].walk(shape+s, fn)
	}
}
