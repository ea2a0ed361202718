package wholeserver

import (
	"testing"

	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestSecret_RotatesNodeByNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const before, after = "the secret before, which is long enough", "the secret after, which is long as well"
		memory, dir := redistest.InMemory(t), t.TempDir()
		start := func(secret, previous string) *testkit.Server {
			wire := memory.Wire()
			return testkit.Start(t, func(c *app.Config) {
				c.Data, c.Redis, c.DialRedis, c.Secret, c.SecretPrevious = dir, wire.Config().URL, wire.Config().Dial, secret, previous
			})
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
