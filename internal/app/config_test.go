package app

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/mail"
)

func TestMailsAreShownByThemselvesOnlyWhereNobodyElseIs(t *testing.T) {
	alone := Config{Addr: "127.0.0.1:8080", Redis: "embedded", SQL: "sqlite", Dev: "auto"}
	for name, c := range map[string]struct {
		change func(*Config)
		want   bool
	}{
		"as it comes":             {func(*Config) {}, true},
		"localhost":               {func(c *Config) { c.Addr = "localhost:0" }, true},
		"IPv6":                    {func(c *Config) { c.Addr = "[::1]:8080" }, true},
		"SQLite elsewhere":        {func(c *Config) { c.SQL = "sqlite:/srv/stoa.db" }, true},
		"every address":           {func(c *Config) { c.Addr = ":8080" }, false},
		"an address of a network": {func(c *Config) { c.Addr = "192.168.1.7:8080" }, false},
		"MySQL":                   {func(c *Config) { c.SQL = "mysql://stoa:stoa@127.0.0.1:3306/stoa" }, false},
		"a Redis server":          {func(c *Config) { c.Redis = "redis://127.0.0.1:6379" }, false},
		"a spawned Redis":         {func(c *Config) { c.Redis = "spawn" }, false},
		"a trusted proxy":         {func(c *Config) { c.TrustProxy = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, false},
		"a mail server":           {func(c *Config) { c.SMTP = mail.Config{Host: "mail.example.org"} }, false},
		"switched off":            {func(c *Config) { c.Dev = "false" }, false},
		"switched on":             {func(c *Config) { c.Dev, c.SQL, c.Addr = "true", "mysql://db/stoa", ":8080" }, true},
	} {
		cfg := alone
		c.change(&cfg)
		if got := cfg.Development(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		if warned := len(cfg.Warnings()) > 0; warned != c.want {
			t.Errorf("%s: a warning: %v, want %v", name, warned, c.want)
		}
		if refused := cfg.ValidateServer() != nil; refused != (!c.want && cfg.SMTP.Host == "") {
			t.Errorf("%s: refused to start: %v", name, refused)
		}
	}
}

func TestWhoSendsNoMailsStartsWithoutAMailServer(t *testing.T) {
	beyond := Config{Addr: ":8080", Redis: "redis://cache:6379", SQL: "mysql://stoa@db/stoa", Dev: "auto"}
	for name, c := range map[string]struct {
		change func(*Config)
		starts bool
	}{
		"all roles":                      {func(*Config) {}, false},
		"a gateway":                      {func(c *Config) { c.Roles = []string{roleGateway} }, true},
		"an API and gateway":             {func(c *Config) { c.Roles = []string{roleAPI, roleGateway} }, true},
		"a worker":                       {func(c *Config) { c.Roles = []string{roleWorker} }, false},
		"the app's own tokens":           {func(c *Config) { c.Accounts.SignIn = accounts.SignInJWT }, true},
		"the app's tokens and addresses": {func(c *Config) { c.Accounts.SignIn = "both" }, false},
	} {
		cfg := beyond
		c.change(&cfg)
		if err := cfg.ValidateServer(); (err == nil) != c.starts {
			t.Errorf("%s: %v", name, err)
		}
		if found := cfg.connectSMTP(t.Context())[0]; (found.Fault == "") != c.starts {
			t.Errorf("%s: config check finds %+v", name, found)
		}
		sender, err := (&App{cfg: cfg}).mailer()
		if (err == nil) != c.starts {
			t.Errorf("%s: %v", name, err)
		} else if c.starts {
			if err := sender.Send(t.Context(), mail.Message{To: "ann@example.org"}); !errors.Is(err, mail.ErrRefused) {
				t.Errorf("%s: a mail is sent: %v", name, err)
			}
		}
	}
}

func TestSettingsThatNothingCouldWorkWithAreRefused(t *testing.T) {
	good := Config{Addr: "127.0.0.1:8080", SQL: "sqlite", Redis: "embedded", Queue: "sql", Roles: roles, KeyPrefix: "stoa", Dev: "auto"}
	for name, change := range map[string]func(*Config){
		"another database":  func(c *Config) { c.SQL = "postgres://stoa:s3cret@db/stoa" },
		"an empty database": func(c *Config) { c.SQL = "" },
		"an empty Redis":    func(c *Config) { c.Redis = "" },
		"no database":       func(c *Config) { c.SQL = "mysql://stoa:s3cret@db" },
		"one connection":    func(c *Config) { c.SQL, c.SQLConns = "mysql://db/stoa", 1 },
		"no bound of them":  func(c *Config) { c.SQL, c.SQLConns = "mysql://db/stoa", -1 },
		"a misspelt Redis":  func(c *Config) { c.Redis = "reddis://:s3cret@cache" },
		"a port too high":   func(c *Config) { c.Addr = "127.0.0.1:99999" },
		"no port":           func(c *Config) { c.Addr = "127.0.0.1" },
		"admin's port":      func(c *Config) { c.AdminAddr = ":99999" },
		"public profiles":   func(c *Config) { c.Addr, c.Pprof = ":8080", true },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	good.SQLConns = 4 // SQLite does not use it
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestOrigins_AreParsedAsTheyAreLoaded(t *testing.T) {
	for given, want := range map[string]bool{
		"https://app.example.org,http://localhost:5173,https://app.example.org:8443,https://app.example.org:443": true,
		"capacitor://localhost,ionic://localhost,tauri://localhost,app://-,https://*.example.org":                true,
		"https://app.example.org/": false, "app.example.org": false, "https://App.example.org": false, "*": false, "https://*.org": false,
	} {
		var cfg Config
		_, err := config.Load(&cfg, config.Sources{Env: []string{"STOA_ORIGINS=" + given}})
		if (err == nil) != want {
			t.Errorf("%s: %v", given, err)
		}
	}
	var cfg Config
	if _, err := config.Load(&cfg, config.Sources{Env: []string{"STOA_PUBLIC_URL=https://münchen.example:443"}}); err != nil ||
		cfg.page() != "https://xn--mnchen-3ya.example" {
		t.Errorf("public_url: got %q, %v", cfg.page(), err)
	}
	for _, given := range []string{"capacitor://localhost", "https://*.example.org", "https://stoa.example.org/"} {
		if _, err := config.Load(&cfg, config.Sources{Env: []string{"STOA_PUBLIC_URL=" + given}}); err == nil {
			t.Errorf("public_url %s: taken", given)
		}
	}
}

func TestHandover_NeedsAProxyAndOtherNodes(t *testing.T) {
	proxy := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, c := range map[string]struct {
		cfg  Config
		want bool
	}{
		"every address":             {Config{Addr: ":8080", Redis: "redis://127.0.0.1:6379"}, true},
		"proxy of a private net":    {Config{Addr: ":8080", Redis: "redis://127.0.0.1:6379", TrustProxy: proxy}, true},
		"loopback behind a proxy":   {Config{Addr: "127.0.0.1:8080", Redis: "redis://127.0.0.1:6379", TrustProxy: proxy}, true},
		"loopback without a proxy":  {Config{Addr: "127.0.0.1:8080", Redis: "redis://127.0.0.1:6379"}, false},
		"a Redis of the node's own": {Config{Addr: ":8080", Redis: "embedded", TrustProxy: proxy}, false},
	} {
		if got := c.cfg.handover(); (got > 0) != c.want {
			t.Errorf("%s: got %s, want a handover: %t", name, got, c.want)
		}
	}
}

func TestARecordingIsNoLargerThanAFileMayBe(t *testing.T) {
	for name, tc := range map[string]struct{ recording, file, want int64 }{
		"as they come":    {0, 0, 1 << 30},
		"smaller files":   {0, 100 << 20, 100 << 20},
		"larger files":    {0, 8 << 30, 1 << 30},
		"the same":        {2 << 30, 2 << 30, 2 << 30},
		"hardly any file": {0, 1000, 1 << 20},
	} {
		c := Config{Roles: roles}
		c.Live.RecordBytes, c.Files.MaxSize = tc.recording, tc.file
		got := c.liveSettings()
		if err := got.Validate(); err != nil || got.RecordBytes != tc.want {
			t.Errorf("%s: got %d, %v, want %d", name, got.RecordBytes, err, tc.want)
		}
	}
}

// The rule of package config: 0 is the default of a setting, or its help states another meaning. A setting that is
// absent from the file gets the same value as one that code leaves at zero.
func TestZeroIsTheDefaultOfEverySettingOrItsHelpSaysWhatElse(t *testing.T) {
	var loaded Config
	if _, err := config.Load(&loaded, config.Sources{}); err != nil {
		t.Fatal(err)
	}
	numbers, others := 0, 0
	for _, s := range config.Reference(&Config{}) {
		if s.Type != "whole number" && s.Type != "duration" {
			continue
		}
		numbers++
		var zero Config
		if _, err := config.Load(&zero, config.Sources{Flags: map[string]string{s.Key: "0"}}); err != nil {
			t.Errorf("%s: %v", s.Key, err)
		}
		same := reflect.DeepEqual(zero, loaded)
		if !same {
			others++
		}
		if same == strings.Contains(s.Help, "; 0: ") && s.Default != "" && s.Default != "0" {
			t.Errorf("%s: 0 is its default: %t; its help says %q", s.Key, same, s.Help)
		}
	}
	if numbers < 20 || others < 5 {
		t.Fatalf("looked at %d numbers, of %d of which 0 is not the default", numbers, others)
	}
	var made Config
	config.Defaults(&made)
	// Here, 0 means none.
	made.Cache.Warm = loaded.Cache.Warm
	made.Social.CooldownRefused, made.Social.CooldownWithdrawn = loaded.Social.CooldownRefused, loaded.Social.CooldownWithdrawn
	for name, pair := range map[string][2]any{
		"accounts": {made.Accounts, loaded.Accounts}, "social": {made.Social, loaded.Social},
		"cache": {made.Cache, loaded.Cache}, "cluster": {made.Cluster, loaded.Cluster}, "smtp": {made.SMTP, loaded.SMTP},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: made in code %+v, loaded %+v", name, pair[0], pair[1])
		}
	}
}
