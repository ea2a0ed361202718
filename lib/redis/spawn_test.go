package redis_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestSpawn_DeadServerIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with space")
	db := redistest.OpenConfig(t, redis.Config{URL: "spawn", Dir: dir})
	before := fingerprint(t, db)
	info := must(t, db.Do(t.Context(), keyspace.Cmd{Name: "INFO", Args: []string{"server"}})).Str
	_, rest, _ := strings.Cut(info, "process_id:")
	line, _, _ := strings.Cut(rest, "\r")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "another server answers", func() bool {
		after, err := db.Fingerprint(t.Context())
		return err == nil && after != before
	})
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("Close left %v", left)
	}
}

func TestSpawn_WithoutRedisServerFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := redis.Open(t.Context(), redis.Config{URL: "spawn"})
	if err == nil || !strings.Contains(err.Error(), "needs redis-server in PATH") {
		t.Errorf("Open: %v; want an error that names redis-server", err)
	}
}

func TestSpawn_ListenErrorIsReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 200)) // longer than the limit of a socket's path
	_, err := redis.Open(t.Context(), redis.Config{URL: "spawn", Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "did not come up") {
		t.Errorf("Open: %v; want an error that the server did not come up", err)
	}
}
