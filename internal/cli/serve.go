package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/obs"
)

type serveCmd struct{ settings }

// Run serves until ctx ends.
func (cmd *serveCmd) Run(ctx context.Context, c *console) (err error) {
	cfg, rep, err := cmd.loadServer()
	if err != nil {
		return err
	}
	return c.serve(ctx, cfg, rep, func(net.Addr) {})
}

// serve runs a server until ctx ends. It calls ready with the address as soon as the server can respond.
func (c *console) serve(ctx context.Context, cfg app.Config, rep *config.Report, ready func(net.Addr)) (err error) {
	signal.Ignore(syscall.SIGHUP) // service managers and log rotation send it for a reload; without this it would end the process
	log := obs.NewLogger(c.err, cfg.Log)
	for _, w := range rep.Warnings {
		log.Warn(w)
	}
	if err := checkFree(cfg.Addr, cfg.AdminAddr); err != nil {
		return err
	}
	defer func() {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // the stop came before the start was complete
		}
	}()
	if err := rep.Locate(cfg.CheckThere()); err != nil {
		return err
	}
	release, err := cfg.Alone()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	a, err := app.New(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	ln, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return err
	}
	var admin net.Listener
	if cfg.AdminAddr != "" {
		if admin, err = net.Listen("tcp", cfg.AdminAddr); err != nil {
			return errors.Join(err, ln.Close())
		}
		a.Admin(admin)
	}
	return a.Run(ctx, ln, func() {
		c.welcome(cfg, rep, ln.Addr(), admin)
		ready(ln.Addr())
	})
}

// checkFree listens on each address for a moment, so that a port in use is found before any write. Until the node can
// respond, its ports refuse connections. Proxies then use another node at once, and do not wait for migrations here.
func checkFree(addrs ...string) error {
	for _, addr := range addrs {
		if addr == "" {
			continue
		}
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		defer ln.Close()
	}
	return nil
}

// welcome writes the line that scripts wait for. For people, it also writes what they need to begin. A failed write
// does not stop the server.
func (c *console) welcome(cfg app.Config, rep *config.Report, addr net.Addr, admin net.Listener) {
	url, adminURL := "http://"+reachable(addr.String()), ""
	if admin != nil {
		adminURL = "http://" + reachable(admin.Addr().String())
	}
	data, err := filepath.Abs(cfg.Data)
	if err != nil {
		data = cfg.Data
	}
	sql, _ := rep.Get("sql")
	redis, _ := rep.Get("redis")
	if c.json || cfg.Log.Format == "json" {
		line := map[string]any{
			"ready": url, "data": data, "sql": sql.Value, "redis": redis.Value, "development": cfg.Development(), "roles": cfg.Roles,
		}
		if adminURL != "" {
			line["admin"] = adminURL
		}
		_ = json.NewEncoder(c.out).Encode(line)
		return
	}
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s "+format+"\n", append([]any{what}, args...)...)
	}
	b.WriteString("stoa ready on " + url + "\n\n")
	if slices.Contains(cfg.Roles, "api") {
		line("open", "%s/", url)
		if cfg.DocsHere() {
			line("API", "%s/docs", url)
		}
	} else {
		line("roles", "%s, without the API; %s/readyz says how it is", strings.Join(cfg.Roles, " and "), url)
	}
	switch {
	case adminURL != "":
		line("operators", "%s/metrics, /readyz, /docs", adminURL)
	case !cfg.OperatorsHere():
		line("operators", "metrics are not served: set admin_addr")
	}
	line("data", "%s", data)
	if sql.Value == "sqlite" && redis.Value == "embedded" {
		line("engines", "SQLite and Redis, both embedded: nothing else to install")
	} else {
		line("engines", "%s, %s", sql.Value, redis.Value)
	}
	switch {
	case !slices.Contains(cfg.Roles, "api"):
	case cfg.Accounts.SignIn == accounts.SignInJWT:
		line("sign in", "with the app's own tokens: POST /v1/auth/jwt")
	case cfg.Development():
		ask := "stoa mail --code"
		if addr, _ := rep.Get("addr"); addr.Origin != config.FromDefault {
			ask += " --server " + url
		}
		line("sign in", "with any e-mail address; its code shows at %s/dev/mail", url)
		line("", "and with: %s", ask)
	case cfg.SMTP.Host == "":
		line("sign in", "with an e-mail address; its code is mailed by a node with the role worker")
	default:
		line("sign in", "with an e-mail address; its code is mailed through %s", cfg.SMTP.Host)
	}
	line("stop", "Ctrl-C")
	_, _ = c.out.Write([]byte(b.String()))
}

// reachable converts an address to listen on into an address to call.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
