package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/background/supervise"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
	"github.com/stoa-dev/stoa/lib/redis"
)

type doctorCmd struct {
	settings
	Within time.Duration `default:"5s" placeholder:"TIME" help:"How long each of what the settings name has to answer."`
	NoKeys bool          `help:"Leave out the keys in Redis, of which there may be many."`
}

// Run tries the settings, as stoa config check --connect does, and inspects the running parts. All faults have one exit
// code, so that scripts need no other.
func (cmd *doctorCmd) Run(ctx context.Context, c *console) error {
	if cmd.Within <= 0 {
		return errWithin
	}
	cfg, result, err := cmd.checked(c)
	if err != nil {
		return err
	}
	checks := cfg.Connect(ctx, cmd.Within)
	reached := strings.Contains(cfg.Redis, "://") // any other Redis is inside a server
	for i := range checks {
		switch check := &checks[i]; check.Setting {
		case "addr", "admin_addr":
			if !check.OK {
				checkServer(ctx, cmd.Within, check)
			}
		case "redis":
			reached = reached && check.OK
		}
	}
	if reached {
		checks = append(checks, cmd.checkRedis(ctx, c, cfg)...)
	}
	_, err = failedChecks(checks)
	return c.tried(result, checks, err)
}

// direct sends requests to exactly the given address, without a proxy and without redirects.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
	return http.ErrUseLastResponse
}}

// checkServer checks whether a server of Stoa uses an address, as it should while it runs. It also reports the health
// of that server.
func checkServer(ctx context.Context, within time.Duration, check *app.Check) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+reachable(check.At)+"/readyz", nil)
	if err != nil {
		return
	}
	began := time.Now()
	resp, err := direct.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	var server struct {
		Status string            `json:"status"`
		Parts  []supervise.State `json:"parts"` // if the address is for operators
	}
	if json.NewDecoder(resp.Body).Decode(&server) != nil || server.Status == "" {
		return // another program listens there
	}
	*check = app.Check{Setting: check.Setting, At: check.At, Took: time.Since(began), Found: "a server of Stoa, " + server.Status}
	if check.OK = server.Status == "ready"; check.OK {
		return
	}
	check.Fault, check.Do = check.Found, "see the log of that server"
	for _, part := range server.Parts {
		if !part.Ready || part.Degraded != "" {
			check.Fault += "; " + part.Name + ": " + cmp.Or(part.Degraded, "not ready")
		}
	}
}

// checkRedis reports what each server does when its memory is full, and compares the keys with the declared ones.
func (cmd *doctorCmd) checkRedis(ctx context.Context, c *console, cfg app.Config) (checks []app.Check) {
	add := func(check app.Check, began time.Time) {
		check.OK, check.Took = check.Fault == "", time.Since(began)
		checks = append(checks, check)
	}
	began := time.Now()
	var servers []redis.ServerInfo
	db, err := c.redisOf(cfg).Open(ctx)
	if err == nil {
		defer db.Close()
		servers, err = db.Info(ctx)
	}
	if err != nil {
		add(app.Check{Setting: "redis", Fault: err.Error(), Do: "look whether Redis has been stopped meanwhile"}, began)
		return checks
	}
	for _, s := range servers {
		if check, ok := whenFull(s); ok {
			add(check, began)
		}
	}
	if cmd.NoKeys {
		return checks
	}
	began = time.Now()
	check := app.Check{Setting: "key_prefix", At: cfg.KeyPrefix}
	bar := c.progress("keys")
	r, err := audit.Run(ctx, db, app.Keys(), audit.Options{Progress: func(p audit.Progress) {
		bar.Show(int64(1000*p.Part), 1000, keycli.Count(p.Keys, "key"))
	}})
	bar.End()
	if err != nil {
		check.Fault, check.Do = err.Error(), "look at what the user of Redis may do (stoa keys acl), or leave this out with --no-keys"
	} else if check.Found = keycli.Count(r.Faults, "fault") + " in " + keycli.Count(r.Keys, "key"); !r.Clean() {
		check.Fault, check.Do = check.Found, "see what stoa keys audit says of them"
	}
	add(check, began)
	return checks
}

// whenFull reports what a server does when its memory is full. It returns false if the server does not report that, as
// a managed service may not.
func whenFull(s redis.ServerInfo) (check app.Check, ok bool) {
	check = app.Check{Setting: "redis", At: s.Addr}
	switch policy := s.Fields["maxmemory_policy"]; {
	case s.Err != nil:
		check.Fault, check.Do = s.Err.Error(), "look at that server, and at what its user may do (stoa keys acl)"
	case policy == "":
		return check, false
	default:
		check.Found = "maxmemory-policy " + policy
		if policy != "noeviction" {
			check.Fault, check.Do = check.Found+": keys are thrown away when the memory is full", "set it to noeviction"
		}
	}
	return check, true
}
