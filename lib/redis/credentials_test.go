package redis_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// vault returns credentials, and records the servers.
type vault struct {
	mu             sync.Mutex
	user, password string
	err            error
	asked          []string
}

func (v *vault) ask(_ context.Context, addr string) (user, password string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = append(v.asked, addr)
	return v.user, v.password, v.err
}

func (v *vault) set(password string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.password, v.err = password, err
}

func newVault() *vault { return &vault{user: "app", password: "p@ss:w/rd"} }

func TestCredentials_CalledForEachConnection(t *testing.T) {
	server := redistest.Server(t, app)
	v := newVault()
	db := redistest.OpenConfig(t, redis.Config{URL: server.URL, Patience: 20 * time.Second, Credentials: v.ask})
	conforms := func() {
		t.Helper()
		eventually.NoError(t, "a command", func() error { return value.At(n(1)).Set(t.Context(), db, "x") })
		name, err := db.Do(t.Context(), keyspace.Cmd{Name: "ACL", Args: []string{"WHOAMI"}}).Str, error(nil)
		if name != "app" || err != nil {
			t.Errorf("the server sees user %q", name)
		}
	}
	conforms()
	for _, addr := range v.asked {
		if addr != server.Addr {
			t.Errorf("called for %q", addr)
		}
	}
	do := func(args ...string) {
		t.Helper()
		if _, err := server.Do(args...); err != nil {
			t.Fatal(err)
		}
	}

	// The password changes: existing connections stay, and the next connection uses the new one.
	do("ACL", "SETUSER", "app", "resetpass", ">another")
	v.set("another", nil)
	conforms()
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	conforms()

	// Without credentials, existing connections stay, and commands that need a new one fail with the reason.
	v.set("", errors.New("the vault is sealed"))
	conforms()
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	eventually.True(t, "a command fails without credentials", func() bool {
		err := value.At(n(1)).Set(t.Context(), db, "x")
		return errors.Is(err, redis.ErrUnavailable) && strings.Contains(err.Error(), "the vault is sealed")
	})
	if losses := db.Stats().Losses; losses != 0 {
		t.Errorf("the server counted as unavailable %d times", losses)
	}
	v.set("another", nil)
	conforms()

	v.set("wrong", nil)
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	eventually.True(t, "a command fails with a wrong password", func() bool {
		err := value.At(n(1)).Set(t.Context(), db, "x")
		return errors.Is(err, redis.ErrUnavailable) && strings.Contains(err.Error(), "WRONGPASS")
	})
}

func TestCredentials_NotUsedForSentinels(t *testing.T) {
	_, port, _ := strings.Cut(redistest.Server(t, app, noDefault).Addr, ":")
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := strings.Join([]string{"requirepass watch", "sentinel monitor stoa 127.0.0.1 " + port + " 1",
		"sentinel auth-user stoa app", "sentinel auth-pass stoa p@ss:w/rd", ""}, "\n")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := redistest.Conf(t, conf, "--sentinel")
	v := newVault()
	cfg := redis.Config{URL: "redis-sentinel://" + sentinel.Addr + "/stoa?sentinel_password=watch", Credentials: v.ask}
	worksWith(t, cfg)
	for _, addr := range v.asked {
		if addr != "127.0.0.1:"+port {
			t.Errorf("called for %q", addr)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	found, err := redis.Probe(ctx, cfg)
	if err != nil || len(found) != 2 || found[0].Err != nil || found[1].Err != nil {
		t.Errorf("probed: %+v, %v", found, err)
	}
}

func TestConnections_AsConfigured(t *testing.T) {
	server := redistest.Server(t)
	for _, want := range []int{1, 8} {
		db := redistest.OpenConfig(t, redis.Config{URL: server.URL, Connections: want})
		var all sync.WaitGroup
		for i := range 64 * want {
			all.Go(func() {
				if err := value.At(n(i)).Set(t.Context(), db, "x"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if made := db.Stats().Connections; made < want || made > want+1 {
			t.Errorf("%d connections, want %d", made, want)
		}
		db.Close()
	}
}

func TestConfig_ContradictionsFail(t *testing.T) {
	v := newVault()
	for name, cfg := range map[string]redis.Config{
		"credentials twice":    {URL: "redis://app:secret@127.0.0.1", Credentials: v.ask},
		"negative patience":    {URL: "redis://127.0.0.1", Patience: -1},
		"negative connections": {URL: "redis://127.0.0.1", Connections: -1},
		"three connections":    {URL: "redis://127.0.0.1", Connections: 3},
		"many connections":     {URL: "redis://127.0.0.1", Connections: 512},
	} {
		db, err := redis.Open(t.Context(), cfg)
		if err == nil {
			db.Close()
			t.Errorf("%s: opened", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server without AUTH repeats its arguments.
func TestErrors_NeverShowPassword(t *testing.T) {
	server := redistest.Server(t, `rename-command AUTH ""`, `rename-command HELLO ""`)
	db, err := redis.Open(t.Context(), redis.Config{URL: strings.Replace(server.URL, "redis://", "redis://app:secret@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, _, err = value.At(n(1)).Get(ctx, db)
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "AUTH") {
		t.Errorf("got %v", err)
	}
}
