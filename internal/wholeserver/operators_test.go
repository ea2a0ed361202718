package wholeserver

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/keyspace/catalogue"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

func TestWhatIsForOperatorsIsNotForThePublic(t *testing.T) {
	operators, description := []string{"/metrics", "/docs/keys"}, []string{"/docs/", "/openapi.json"}
	for name, tt := range map[string]struct {
		change          func(*app.Config)
		here, described bool
	}{
		"loopback":                   {func(*app.Config) {}, true, true},
		"loopback without docs":      {func(c *app.Config) { c.Docs = "false" }, true, false},
		"behind a proxy":             {behind, false, false},
		"beyond loopback":            {func(c *app.Config) { c.Addr = ":8080" }, false, false},
		"beyond loopback with docs":  {func(c *app.Config) { c.Addr, c.Docs = ":8080", "true" }, false, true},
		"with an address of its own": {func(c *app.Config) { c.AdminAddr, c.Pprof = "127.0.0.1:0", true }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := testkit.Start(t, tt.change)
			status := func(path string) int { code, _, _ := s.Call(t, nil, "GET", path, ""); return code }
			for _, path := range operators {
				if got := status(path); (got == http.StatusOK) != tt.here {
					t.Errorf("%s: got %d", path, got)
				}
			}
			for _, path := range description {
				if got := status(path); (got == http.StatusOK) != tt.described {
					t.Errorf("%s: got %d", path, got)
				}
			}
			if got := status("/debug/pprof/heap"); got != http.StatusNotFound { // profiles are off, or elsewhere
				t.Errorf("a profile: got %d", got)
			}
			if code, _, body := s.Call(t, nil, "GET", "/readyz", ""); code != http.StatusOK || strings.Contains(body, "parts") != tt.here {
				t.Errorf("/readyz: got %d %s", code, body)
			}
		})
	}
}

func TestOperatorsHaveAnAddressOfTheirOwn(t *testing.T) {
	s := testkit.Start(t, func(c *app.Config) { c.AdminAddr, c.Pprof = "127.0.0.1:0", true })
	get := func(path string) (int, string) {
		resp, err := s.HTTP.Get(s.AdminURL + path)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(text)
	}
	for path, want := range map[string]string{"/metrics": "stoa_sql_connections", "/docs/keys": "user:info", "/docs/": "swagger",
		"/openapi.json": `"/v1/checkin"`, "/readyz": `"parts"`, "/healthz": "ok", "/debug/pprof/": "goroutine",
		"/debug/pprof/goroutine?debug=1": "operators_test.go", "/debug/pprof/profile?seconds=1": "\x1f\x8b"} {
		if got, text := get(path); got != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: got %d %.200s", path, got, text)
		}
	}
	_, keys := get("/docs/keys")
	for _, f := range catalogue.New(app.Keys()...).Families {
		if !strings.Contains(keys, "<code>"+f.Pattern+"</code>") {
			t.Errorf("the page of keys lacks %s", f.Pattern)
		}
	}
	if got, _ := get("/v1/checkin"); got != http.StatusNotFound {
		t.Errorf("an operation at the operators' address: got %d", got)
	}
}

// A node without SQL still serves data from Redis. It stays in its proxy, and names the unavailable part, the start and
// the reason.
func TestReadinessNamesTheDatabaseThatIsAway(t *testing.T) {
	maria := sqldbtest.OwnServer(t, sqldbtest.Options{})
	var log logtest.Buffer
	s := testkit.StartLogged(t, log.Logger(), func(c *app.Config) { c.SQL = maria.URL })
	readyz := func() string {
		code, _, body := s.Call(t, nil, "GET", "/readyz", "")
		return fmt.Sprint(code, " ", body)
	}
	eventually.True(t, "all to be ready", func() bool { return strings.HasPrefix(readyz(), `200 {"status":"ready"`) })
	maria.Kill9(t)
	eventually.True(t, "the database to be away", func() bool {
		got := readyz()
		return strings.HasPrefix(got, `200 {"status":"degraded"`) &&
			strings.Contains(got, `{"name":"sql","ready":true,"degraded":"away since 20`) && strings.Contains(got, "connect")
	})
	maria.Restart(t)
	eventually.True(t, "the database to be back", func() bool { return strings.HasPrefix(readyz(), `200 {"status":"ready"`) })
	for _, line := range []string{`msg="sql: unavailable"`, `msg="sql: available again"`, `msg=listening`} {
		if n := log.Count(line); n != 1 {
			t.Errorf("%d lines have %s, want one", n, line)
		}
	}
	t.Log(log.String())
}

// The database answers, and refuses the trial write because its table is missing.
func TestReadiness_NamesADatabaseThatRefusesWrites(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := testkit.Start(t)
		db := s.SQL(t)
		says := func(want ...string) {
			t.Helper()
			eventually.True(t, fmt.Sprint("/readyz to say ", want), func() bool {
				code, _, body := s.Call(t, nil, "GET", "/readyz", "")
				got := fmt.Sprint(code, " ", body)
				return !slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(got, part) })
			})
		}
		rename := func(from, to string) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), "ALTER TABLE "+from+" RENAME TO "+to); err != nil {
				t.Fatal(err)
			}
		}
		says(`200 {"status":"ready"`)
		rename("settings", "elsewhere")
		says(`200 {"status":"degraded"`, `{"name":"sql","ready":true,"degraded":"refuses writes: `, "settings")
		rename("elsewhere", "settings")
		says(`200 {"status":"ready"`)
	})
}
