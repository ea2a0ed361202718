package queue

import (
	"strings"
	"testing"
)

// Message ids come from the command line.
func FuzzParseID(f *testing.F) {
	for _, seed := range []string{"", "/", "a/1-2", "a/b/d1-2", "a/1", "a/-", "a/1-2-3", "a/18446744073709551616-0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		topic, entry, dead, ok := parseID(id)
		if !ok {
			return
		}
		again := topic + "/" + entry
		if dead {
			again = topic + "/" + deadMark + entry
		}
		if topic == "" || again != id || strings.ContainsAny(entry, "/ \r\n") {
			t.Errorf("%q: got %q, %q, %v", id, topic, entry, dead)
		}
	})
}
