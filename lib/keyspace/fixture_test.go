package keyspace

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// id is a segment of twelve base64url bytes, as Stoa's identifiers are.
type id struct{ s string }

func (i id) AppendSegment(b []byte) []byte { return append(b, i.s...) }
func (id) SegmentForm() Form               { return Form{Alphabet: Base64URL, Min: 12, Max: 12} }

// name is a text that its constructor should have bounded.
type name struct{ s string }

func (n name) AppendSegment(b []byte) []byte { return appendEscaped(b, n.s) }
func (name) SegmentForm() Form               { return Form{Max: 3 * 64} }

type boards struct{}

func (boards) Words() []string { return []string{"streak", "total_days"} }

type board = Word[boards]

var someone = id{"V1StGXR8_Z5j"}

// declare adds families with a computed pattern.
func declare(s *Schema, pattern string, args ...Form) *Family {
	return s.add(literal(pattern), "string", "bytes", Expire(time.Hour), Doc{Purpose: "a test's"}, args...)
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); want == "" || !strings.Contains(got, want) {
			t.Errorf("panic %q, want one with %q", got, want)
		}
	}()
	f()
}
