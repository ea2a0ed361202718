package redis_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func count(t redis.Trips) (n uint64) {
	for _, took := range t.Took {
		n += took
	}
	return n
}

func TestStats_KindsOfRoundTrips(t *testing.T) {
	db := redistest.Open(t, "embedded")
	before := db.Stats()
	get := bits.At(n(1)).GetCmd()
	script := redis.NewScript("return redis.call('GET', KEYS[1])")
	keys := []keyspace.Key{bits.At(n(1)).Key}
	const each = 20_000
	for range each {
		db.Do(t.Context(), get)
	}
	for range 10 {
		db.DoMulti(t.Context(), []keyspace.Cmd{get, get, get})
		db.DoMulti(t.Context(), []keyspace.Cmd{get, script.Cmd(keys)})
	}
	s := db.Stats()
	// An eighth of the lone commands is timed: 2,500, plus or minus 47.
	if got := count(s.Lone) - count(before.Lone); got < each-8*400 || got > each+8*400 {
		t.Errorf("%d lone round trips, want about %d", got, each)
	}
	if got, want := s.Lone.Commands, count(s.Lone); got != want {
		t.Errorf("%d lone commands in %d round trips", got, want)
	}
	if got := count(s.Batch); got != 10 || s.Batch.Commands != 30 {
		t.Errorf("batches: %d round trips of %d commands, want 10 of 30", got, s.Batch.Commands)
	}
	if got := count(s.Script); got != 10 || s.Script.Commands != 20 {
		t.Errorf("scripts: %d round trips of %d commands, want 10 of 20", got, s.Script.Commands)
	}
	for kind, trips := range map[string]redis.Trips{"lone": s.Lone, "batch": s.Batch, "script": s.Script} {
		if len(trips.Took) != len(redis.TripBounds())+1 {
			t.Errorf("%s: %d counts for %d bounds", kind, len(trips.Took), len(redis.TripBounds()))
		}
		if trips.Total <= 0 || trips.Total > time.Minute {
			t.Errorf("%s: took %s in all", kind, trips.Total)
		}
	}
	if !slices.IsSorted(redis.TripBounds()) {
		t.Error("the bounds are not in order")
	}
}

func TestStats_ErrorsAndConnections(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	get := bits.At(n(1)).GetCmd()
	left, leave := context.WithCancel(t.Context())
	leave()
	db.Do(left, get)
	db.Do(t.Context(), keyspace.Cmd{Name: "NOSUCH", Key: value.At(n(1)).Key})
	s := db.Stats()
	if s.Canceled != 1 || s.Refused != 1 || s.Away != 0 || s.TimedOut != 0 {
		t.Errorf("got %+v, want one canceled and one refused command", s)
	}
	if s.Connections == 0 || s.Connects < uint64(s.Connections) || s.Losses != 0 || s.ServersAway != 0 {
		t.Errorf("got %+v, want connections and no loss", s)
	}

	server.Kill()
	eventually.True(t, "the loss is counted", func() bool {
		db.Do(t.Context(), get)
		return db.Stats().ServersAway == 1
	})
	if s = db.Stats(); s.Away == 0 || s.Losses != 1 || s.Connections != 0 {
		t.Errorf("got %+v, want one loss, failed commands and no connection", s)
	}
	server.Restart()
	eventually.True(t, "the connection works again", func() bool { return db.Do(t.Context(), get).Err == nil })
	if s = db.Stats(); s.Reconnects == 0 || s.ServersAway != 0 || s.Connections == 0 {
		t.Errorf("got %+v, want reconnects", s)
	}

	server.Pause()
	defer server.Resume()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	db.Do(short, get)
	if s = db.Stats(); s.TimedOut != 1 {
		t.Errorf("%d commands ran out of time, want 1", s.TimedOut)
	}
}

func TestInfo_EveryOwner(t *testing.T) {
	for _, e := range redistest.SharedEngines(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			db := e.Open(t)
			all, err := db.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := 1
			if e.Name == "cluster" {
				want = 3
			}
			seen := map[string]bool{}
			for _, s := range all {
				seen[s.Addr] = true
				if s.Err != nil {
					t.Errorf("%s: %v", s.Addr, s.Err)
				}
				if e.Name == "embedded" {
					continue // it only knows connections and commands
				}
				if s.Fields["role"] != "master" || s.Fields["used_memory"] == "" || s.Fields["aof_enabled"] != "0" {
					t.Errorf("%s says role %q, memory %q", s.Addr, s.Fields["role"], s.Fields["used_memory"])
				}
			}
			if len(seen) != want {
				t.Errorf("asked %v, want %d servers", seen, want)
			}
			settings, err := db.Settings(t.Context(), "appendonly", "appendfsync")
			if err != nil || len(settings) != want {
				t.Errorf("settings of %d servers, %v, want %d", len(settings), err, want)
			}
			for _, s := range settings {
				if !seen[s.Addr] || (s.Err == nil) != (e.Name != "embedded") || s.Err == nil &&
					(s.Fields["appendonly"] != "no" || s.Fields["appendfsync"] == "") {
					t.Errorf("%s is set %v, %v", s.Addr, s.Fields, s.Err)
				}
			}
		})
	}
}

func TestInfo_UnavailableServerIsAnError(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	server.Kill()
	all, err := db.Info(t.Context())
	if err != nil || len(all) != 1 || all[0].Err == nil {
		t.Errorf("got %+v, %v, want one server with an error", all, err)
	}
}
