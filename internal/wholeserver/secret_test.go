package wholeserver

import (
	"os"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestSecret_RotatesNodeByNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const before, after = "the secret before, which is long enough", "the secret after, which is long as well"
		p := deploy(t, 0)
		start := func(secret, previous string) *testkit.Server {
			return p.start(func(c *app.Config) { c.Secret, c.SecretPrevious = secret, previous })
		}
		first := start(before, "")
		ann := first.SignUp(t, "UTC")
		tokens := ann.Tokens()
		at := func(s *testkit.Server) *client.Client { return s.Client(t, client.WithTokens(tokens)) }
		key, err := ann.PushKey(t.Context())
		must(t, err)
		old, err := ann.DrawCard(t.Context())
		must(t, err)

		prepared, rotated := start(before, after), start(after, before)
		fresh, err := at(rotated).Card(t.Context())
		must(t, err)
		if fresh.Token == old.Token {
			t.Error("a card has the token of the secret before, want another one")
		}
		last := start(after, "")
		for name, c := range map[string]struct {
			node  *testkit.Server
			cards map[string]bool
		}{
			"prepared": {prepared, map[string]bool{old.Token: true, fresh.Token: true}},
			"rotated":  {rotated, map[string]bool{old.Token: true, fresh.Token: true}},
			"last":     {last, map[string]bool{old.Token: false, fresh.Token: true}},
		} {
			if got, err := at(c.node).PushKey(t.Context()); got != key || err != nil {
				t.Errorf("%s: push key %v, %v, want %v", name, got, err, key)
			}
			for token, good := range c.cards {
				if _, err := at(c.node).CardOwner(t.Context(), token); (err == nil) != good {
					t.Errorf("%s: card %s: %v, want good %v", name, token, err, good)
				}
			}
		}
	})
}

// The SQL statements of docs/operate.md let a node with a new secret start, and sessions stay valid.
func TestSecret_LostOneIsReplaced(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate.md")
	must(t, err)
	_, chapter, found := strings.Cut(string(page), "\n### A lost secret\n")
	_, block, _ := strings.Cut(chapter, "\n```sql\n")
	statements, _, _ := strings.Cut(block, "\n```\n")
	if !found || strings.Count(statements, ";") != 2 {
		t.Fatalf("the page has the statements %q", statements)
	}
	dir := t.TempDir()
	var tokens api.Tokens
	run := func(name, secret string, story func(t *testing.T, s *testkit.Server)) {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				story(t, testkit.Start(t, func(c *app.Config) { c.Data, c.Secret = dir, secret }))
			})
		})
	}
	run("before", "the lost secret, which is long enough", func(t *testing.T, s *testkit.Server) { tokens = s.SignUp(t, "UTC").Tokens() })
	db := sqldbtest.Open(t, sqldb.Config{Dir: dir})
	for statement := range strings.SplitSeq(strings.TrimSuffix(statements, ";"), ";\n") {
		_, err := db.ExecContext(t.Context(), statement)
		must(t, err)
	}
	run("after", "the new secret, which is long as well", func(t *testing.T, s *testkit.Server) {
		_, err := s.Client(t, client.WithTokens(tokens)).Me(t.Context())
		must(t, err)
	})
}
