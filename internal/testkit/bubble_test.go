package testkit

import (
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestAWholeServerRunsInABubble(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := Start(t)
		c := s.SignUp(t, "UTC")
		for day := range 2 {
			status, _, body := s.Call(t, c, "POST", "/v1/checkin", "{}")
			if want := []string{`"streak":1`, `"streak":2`}[day]; status != 200 && status != 201 || !strings.Contains(body, want) {
				t.Errorf("day %d: got %d %s, want %s", day, status, body, want)
			}
			bubble.Sleep(30 * time.Second)
			s.Clock.Set(s.Clock.Now().Add(24 * time.Hour))
			if _, err := c.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestTwoServersShareADatabaseAndARedisThatGoesAway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir, memory := t.TempDir(), redistest.InMemory(t)
		wires := [2]*redistest.Wire{memory.Wire(), memory.Wire()}
		var nodes [2]*Server
		for i := range nodes {
			nodes[i] = Start(t, func(cfg *app.Config) {
				cfg.Data, cfg.Redis, cfg.DialRedis = dir, wires[i].Config().URL, wires[i].Config().Dial
			})
		}
		c := nodes[0].SignUp(t, "UTC")
		wires[1].BlackHole()
		nodes[0].Call(t, c, "POST", "/v1/checkin", "{}")
		began := time.Now()
		status, _, body := nodes[1].Call(t, c, "GET", "/v1/checkin", "")
		if status != 200 || !strings.Contains(body, `"today":true`) || time.Since(began) > time.Second {
			t.Errorf("behind a black hole after %v: got %d %s", time.Since(began), status, body)
		}
		wires[1].Heal()
		eventually.True(t, "the second node to be ready", func() bool {
			status, _, _ := nodes[1].Call(t, nil, "GET", "/readyz", "")
			return status == 200
		})
	})
}
