package gateway

import (
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/config"
	"github.com/stoa-dev/stoa/internal/foundation/web"
)

func TestSettingsThatWouldRefuseEverybodyAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"no connection from a household":                      func(s *Settings) { s.MaxFrom = -1 },
		"more connections from a household than a node holds": func(s *Settings) { s.MaxFrom = web.MaxConns + 1 },
		"no connection of a user":                             func(s *Settings) { s.MaxUser = -1 },
		"no pings":                                            func(s *Settings) { s.Ping = -time.Second },
		"a ping an hour":                                      func(s *Settings) { s.Ping = time.Hour },
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
