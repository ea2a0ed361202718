package redis

import (
	"math"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

func hotCmd(n int64) keyspace.Cmd {
	return keyspace.Cmd{Name: "GET", Key: benchKeys.At(keyspace.Int{N: n}).Key}
}

// old returns a counter that has run for ten minutes.
func old() *hot {
	h := newHot()
	h.began -= 10 * time.Minute
	return h
}

func TestHotKeys_MostUsedFirst(t *testing.T) {
	db := &DB{hot: old()}
	const rounds = 240_000
	cmds := []keyspace.Cmd{hotCmd(-1), hotCmd(-1), hotCmd(-2), {}, {}} // one command in three is hot, half of that, one without a key
	for i := range int64(rounds) {
		cmds[4] = hotCmd(i) // one rare key in each round
		db.hot.batch(cmds)
	}
	all := db.HotKeys()
	if len(all) < 2 || all[0].Key != cmds[0].Key || all[1].Key != cmds[2].Key {
		t.Fatalf("got %v, want the two that are hot first", all)
	}
	// rounds commands within a decay time of 60 s. The expected samples are 1,875 and 937, and rare keys may displace a
	// few.
	for i, want := range []float64{2 * rounds / 60, rounds / 60} {
		if got := all[i].PerSecond; math.Abs(got-want) > want/4 {
			t.Errorf("%s: %.0f per second, want about %.0f", all[i].Key, got, want)
		}
	}
	if len(all) > maxHotKeys || len(db.hot.by) > maxHotCounts {
		t.Errorf("%d keys returned, %d counted; want at most %d and %d", len(all), len(db.hot.by), maxHotKeys, maxHotCounts)
	}
}

func TestHotKeys_CommandSharesWeight(t *testing.T) {
	db := &DB{hot: old()}
	mget := hotCmd(0)
	for i := int64(1); i < 4; i++ {
		mget.More = append(mget.More, hotCmd(i).Key)
	}
	const n = 60_000
	for i := range uint32(n) {
		db.hot.lone(&mget, i) // one in 256, exactly
	}
	all := db.HotKeys()
	sum := 0.
	for _, k := range all {
		sum += k.PerSecond
	}
	if want := 4. * n / 60; len(all) != 4 || math.Abs(sum-want) > want/50 {
		t.Errorf("%d keys with %.0f uses per second, want 4 with %.0f", len(all), sum, want)
	}
}

func TestHotKeys_Decay(t *testing.T) {
	db := &DB{hot: old()}
	once := hotCmd(1)
	for range 100 {
		db.hot.lone(&once, 0)
	}
	before := db.HotKeys()
	db.hot.faded -= hotDecay
	after := db.HotKeys()
	if len(before) != 1 || len(after) != 1 || math.Abs(after[0].PerSecond*math.E/before[0].PerSecond-1) > .01 {
		t.Errorf("got %v, and a minute later %v; want a third of it", before, after)
	}
	db.hot.faded -= 10 * hotDecay
	if now := db.HotKeys(); len(now) != 0 {
		t.Errorf("ten minutes later: %v, want none", now)
	}
	if got := (&DB{}).HotKeys(); got != nil {
		t.Errorf("without HotKeys: got %v", got)
	}
}

func TestHotKeys_RateOfNewCounter(t *testing.T) {
	db := &DB{hot: newHot()}
	db.hot.began -= 2 * time.Second
	once := hotCmd(1)
	for range 100 {
		db.hot.lone(&once, 0)
	}
	if all := db.HotKeys(); len(all) != 1 || math.Abs(all[0].PerSecond-12800) > 400 { // 100 samples of 25,600 in two seconds
		t.Errorf("got %v, want about 12,800 per second", all)
	}
}
