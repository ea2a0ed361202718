package wholeserver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestAServerInRedisFirstModeTakesCheckInsToSQL(t *testing.T) {
	for _, queue := range []string{"sql", "redis"} {
		t.Run("queue "+queue, func(t *testing.T) {
			url := redistest.Server(t, "appendonly yes", "appendfsync always").URL
			s := testkit.Start(t, func(cfg *app.Config) {
				cfg.Redis, cfg.Queue, cfg.Checkin.Mode = url, queue, checkin.RedisFirst
			})
			c := s.SignUp(t, "UTC")
			eventually.True(t, "the check-in to be taken", func() bool {
				status, _, body := s.Call(t, c, "POST", "/v1/checkin", "{}")
				if status == http.StatusServiceUnavailable { // SQL has a second to respond, because Redis has not loaded the record in time
					return false
				}
				if status != http.StatusOK || !strings.Contains(body, `"streak":1`) {
					t.Fatalf("%d %s", status, body)
				}
				return true
			})
			db := s.SQL(t)
			eventually.True(t, "sql to have the day", func() bool {
				var n int
				err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM checkins").Scan(&n)
				return err == nil && n == 1
			})
		})
	}
}

func TestRedisFirstModeWantsARedisThatKeeps(t *testing.T) {
	for url, want := range map[string]string{
		"embedded":                         "would lose check-ins",
		"spawn":                            "would lose check-ins",
		"redis://127.0.0.1:6379":           "",
		"redis-cluster://127.0.0.1:6379":   "replicas cannot be waited for",
		"redis-sentinel://127.0.0.1/stoa1": "",
	} {
		cfg := app.Config{Addr: "127.0.0.1:0", SQL: "sqlite", Redis: url, Queue: "sql", Roles: []string{"api"}, KeyPrefix: "stoa", Dev: "true"}
		cfg.Checkin.Mode, cfg.Checkin.Replicas = checkin.RedisFirst, 1
		err := cfg.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
	for _, c := range []checkin.Settings{{Mode: "fast"}, {Replicas: 6}, {Replicas: -1}} {
		if c.Validate() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}
