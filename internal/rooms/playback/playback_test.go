package playback

import "testing"

func TestState_PositionFollowsClockAndRate(t *testing.T) {
	s := State{Generation: 1, Item: "a", Position: 1000, Time: 50_000, Rate: Normal}
	for _, c := range []struct {
		name string
		s    State
		now  int64
		want int64
	}{
		{"after three seconds", s, 53_000, 4000},
		{"before it was made", s, 49_000, 1000},
		{"at double speed", State{Position: 1000, Time: 50_000, Rate: 2000}, 53_000, 7000},
		{"at three quarters", State{Position: 0, Time: 0, Rate: 750}, 1001, 750},
		{"paused", State{Position: 7, Time: 0, Rate: 1000, Paused: true}, 99, 7},
		{"after years", State{Time: 0, Rate: 1000}, 1 << 50, MaxPosition},
	} {
		if got := c.s.At(c.now); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// The clock was ahead for some time, so the register has a time in the future.
func TestApply_TimeFarAheadCountsAsNow(t *testing.T) {
	const now = 1_700_000_000_000
	for _, c := range []struct {
		ahead int64
		want  int64 // position ten seconds after the command
	}{{0, 15_000}, {MaxAhead, 10_000}, {MaxAhead + 1, 15_000}, {3600_000, 15_000}} {
		s, ok := State{Position: 5000, Time: now + c.ahead, Rate: Normal, Paused: true}.Apply(Command{Verb: Play}, now)
		if got := s.At(now + 10_000); !ok || got != c.want {
			t.Errorf("%d ms ahead: got position %d, want %d", c.ahead, got, c.want)
		}
	}
}

func TestApply_IgnoresAnOutdatedCommand(t *testing.T) {
	s := State{Generation: 2, Version: 5, Item: "a", Time: 10, Rate: Normal}
	for _, c := range []Command{{Generation: 2, Version: 4}, {Generation: 1, Version: 5}, {Generation: 3, Version: 5},
		{Generation: 2, Version: 6}} {
		c.Verb = Pause
		if got, ok := s.Apply(c, 20); ok || got != s {
			t.Errorf("%+v: got %+v, %v", c, got, ok)
		}
	}
	if got, ok := s.Apply(Command{Generation: 2, Version: 5, Verb: Pause}, 20); !ok || !got.Paused || got.Version != 6 || got.Position != 10 ||
		!got.Newer(s) {
		t.Errorf("got %+v, %v", got, ok)
	}
}

func TestApply_ReleaseKeepsAPause(t *testing.T) {
	s := State{Item: "a", Rate: Normal}
	do := func(v Verb, now int64) {
		t.Helper()
		s, _ = s.Apply(Command{Generation: s.Generation, Version: s.Version, Verb: v}, now)
	}
	do(Hold, 100)
	if do(Hold, 200); !s.Paused || !s.Held || s.Version != 1 || s.Position != 100 {
		t.Fatalf("held: %+v", s)
	}
	if do(Release, 300); s.Paused || s.Held || s.Position != 100 || s.Time != 300 {
		t.Fatalf("released: %+v", s)
	}
	do(Hold, 400)
	do(Pause, 500)
	if do(Release, 600); !s.Paused {
		t.Fatalf("paused by a member, and released: %+v", s)
	}
}

func TestStamp_GrowsWithGenerationAndVersion(t *testing.T) {
	before := State{}
	for _, s := range []State{{Version: 1}, {Version: Fence - 1}, {Generation: 1}, {Generation: 1, Version: 3}, {Generation: 7}} {
		if s.Stamp() <= before.Stamp() || !s.Newer(before) || Stamped(s.Stamp()) != s {
			t.Errorf("%+v after %+v", s, before)
		}
		before = s
	}
}
