package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge"

	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

func TestLogged_CountsTheSameFault(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log logtest.Buffer
		g := &Gateway{base: t.Context(), log: log.Logger(), faults: faults{all: map[string]fault{}}}
		entry := centrifuge.LogEntry{Level: centrifuge.LogLevelError, Message: "error publishing",
			Fields: map[string]any{"error": "redis: unavailable"}}
		for range 270 {
			g.logLibrary(entry)
		}
		bubble.Sleep(faultLogInterval)
		g.logLibrary(entry)
		if got := log.Count("error publishing"); got != 2 || !strings.Contains(log.String(), "others=269") {
			t.Errorf("got %d lines, want 2 and the count of the others:\n%s", got, &log)
		}
	})
}

func TestSettings_RefuseUselessValues(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"no connection from a network":                      func(s *Settings) { s.MaxFrom = -1 },
		"more connections from a network than a node holds": func(s *Settings) { s.MaxFrom = web.MaxConns + 1 },
		"no connection of a user":                           func(s *Settings) { s.MaxUser = -1 },
		"no pings":                                          func(s *Settings) { s.Ping = -time.Second },
		"a ping an hour":                                    func(s *Settings) { s.Ping = time.Hour },
	} {
		var s Settings
		config.Defaults(&s)
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&s)
		if s.Validate() == nil {
			t.Errorf("%s: %+v is taken", name, s)
		}
	}
}
