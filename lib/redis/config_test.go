package redis

import (
	"context"
	"strings"
	"testing"
)

func TestURL_Parsed(t *testing.T) {
	for _, c := range []struct{ url, mode, addrs, user, password, master string }{
		{"", "embedded", "", "", "", ""},
		{"embedded", "embedded", "", "", "", ""},
		{"spawn", "spawn", "", "", "", ""},
		{"redis://localhost", "standalone", "localhost:6379", "", "", ""},
		{"redis://[::1]:7000/3", "standalone", "[::1]:7000", "", "", ""},
		{"rediss://ada:p%40ss%2Fw@h:1", "standalone", "h:1", "ada", "p@ss/w", ""},
		{"redis://:pw@h", "standalone", "h:6379", "", "pw", ""},
		{"unix:///run/redis.sock?db=2", "standalone", "/run/redis.sock", "", "", ""},
		{"redis-sentinel://u:p@a,b:1,c/mine?sentinel_password=s", "sentinel", "a:26379 b:1 c:26379", "u", "p", "mine"},
		{"redis-cluster://a,b:7001?tls=true", "cluster", "a:6379 b:7001", "", "", ""},
	} {
		got, err := parse(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if got.mode != c.mode || strings.Join(got.opt.InitAddress, " ") != c.addrs || got.opt.Username != c.user ||
			got.opt.Password != c.password || got.opt.Sentinel.MasterSet != c.master {
			t.Errorf("%s: mode %s, addresses %v, user %q, password %q, master %q", c.url, got.mode,
				got.opt.InitAddress, got.opt.Username, got.opt.Password, got.opt.Sentinel.MasterSet)
		}
		if secure := strings.HasPrefix(c.url, "rediss") || strings.Contains(c.url, "tls=true"); secure != (got.opt.TLSConfig != nil) {
			t.Errorf("%s: encrypted %v, want %v", c.url, got.opt.TLSConfig != nil, secure)
		}
	}
	if got, _ := parse("redis://h/3"); got.opt.SelectDB != 3 {
		t.Errorf("database %d, want 3", got.opt.SelectDB)
	}
	if got, _ := parse("unix:///s?db=2"); got.opt.SelectDB != 2 {
		t.Errorf("database %d, want 2", got.opt.SelectDB)
	}
}

func TestConfig_InvalidNeverShowsPassword(t *testing.T) {
	const secret = "hunter2"
	for _, cfg := range []Config{
		{URL: "nonsense"},
		{URL: "http://h"},
		{URL: "redis://"},
		{URL: "redis://:" + secret + "@"},
		{URL: "redis://u:" + secret + "%zz@h"},
		{URL: "redis://" + secret + "@h"},
		{URL: "redis://:x?" + secret + "@h"},
		{URL: "redis://u:x?" + secret + "&y@h"},
		{URL: "redis://u:" + secret + "@h:99999"},
		{URL: "redis://u:" + secret + "@h/x"},
		{URL: "redis://h1,h2"},
		{URL: "redis://h?timeout=1"},
		{URL: "redis://h?db=%zz"},
		{URL: "redis-cluster://h/1"},
		{URL: "redis-sentinel://h"},
		{URL: "redis-sentinel://h/m?db=x"},
		{URL: "unix://relative.sock"},
		{Prefix: "Stoa"},
		{Prefix: "sto{a}"},
		{Prefix: "stoa:"},
		{Prefix: "sto*"},
	} {
		db, err := Open(context.Background(), cfg)
		if err == nil {
			db.Close()
			t.Errorf("Open(%q, prefix %q) succeeded", cfg.URL, cfg.Prefix)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("Open(%q): the error %q shows the password", cfg.URL, err)
		}
	}
}

// The options for the client library: the binary logarithm of the number of connections, or -1 for one.
func TestConnections_DefaultByProcessors(t *testing.T) {
	for processors, want := range map[int][2]int{1: {-1, 12}, 2: {-1, 12}, 3: {-1, 12}, 4: {1, 11}, 7: {1, 11}, 8: {2, 10}, 64: {2, 10}} {
		if multiplex, ring := sharing(connections(processors)); multiplex != want[0] || ring != want[1] {
			t.Errorf("%d processors: got %d and %d, want %v", processors, multiplex, ring, want)
		}
	}
}
