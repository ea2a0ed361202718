package presence

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/cluster"
)

func connection(node cluster.ID, number uint64) Connection {
	return Connection{Node: node, Number: number, Kind: Socket, Device: ids.New[accounts.Session](),
		Since: time.Unix(1_790_000_000+int64(number), 0).UTC()}
}

func TestParseConnections_RoundTrip(t *testing.T) {
	var want []Connection
	var text []string
	for i := range uint64(50) {
		c := connection(ids.New[cluster.Node](), i*i*i*i*i)
		if i%3 == 0 {
			c.Kind = Stream
		}
		want, text = append(want, c), append(text, c.String())
		if !strings.HasPrefix(c.String(), c.name()) {
			t.Errorf("%s does not begin with %s", c, c.name())
		}
	}
	if got := parseConnections(strings.Join(text, " ")); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseConnections_SkipsMalformedEntries(t *testing.T) {
	good := connection(ids.New[cluster.Node](), 7)
	node, device := good.Node.String(), good.Device.String()
	for _, bad := range []string{"", "x", ":::", node, node + ":s1:" + device, node + "::" + device + ":1", node + ":s:" + device + ":1",
		node + ":x1:" + device + ":1",
		node + ":s-1:" + device + ":1", "short:s1:" + device + ":1", node + ":s1:short:1", node + ":s1:" + device + ":",
		node + ":s1:" + device + ":1:2"} {
		if got := parseConnections(bad + " " + good.String()); len(got) != 1 || got[0] != good {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}

func TestParseWishValue_MalformedIsOnline(t *testing.T) {
	for value, want := range map[string]Status{"": Online, "2:7": Away, "3:1": Busy, "1:9": Online, "0:1": Online, "4:1": Online,
		"-1:1": Online, "2": Online, "2:": Online, ":2": Online, "away:1": Online} {
		if got := parseWishValue(value).status(); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

func FuzzConnections(f *testing.F) {
	f.Add(connection(ids.New[cluster.Node](), 35).String())
	f.Add("a:b:c:d e")
	f.Fuzz(func(t *testing.T, value string) {
		for _, c := range parseConnections(value) {
			if again, ok := parseConnection(c.String()); !ok || again != c {
				t.Errorf("%q has %v, and its text is parsed as %v", value, c, again)
			}
		}
		parseWishValue(value)
	})
}
