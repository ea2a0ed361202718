package client

import (
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
)

func TestTheClockIsTheMiddleOfTheBestPings(t *testing.T) {
	s := &PlaybackSync{}
	here := time.UnixMilli(1_700_000_000_000)
	if s.Offset() != 0 {
		t.Errorf("before any answer: %s", s.Offset())
	}
	for i := range 40 { // two seconds behind; every second response is slow in one direction
		sent, late := here.Add(time.Duration(i)*time.Second), time.Duration(i%2)*400*time.Millisecond
		s.AddClock(sent, sent.Add(100*time.Millisecond+late), api.RoomClock{Time: sent.Add(2*time.Second + 50*time.Millisecond).UnixMilli()})
	}
	if s.Offset() != 2*time.Second {
		t.Errorf("got %s, want 2s", s.Offset())
	}
}

func TestAClockThatIsSetCountsAtOnce(t *testing.T) {
	s := &PlaybackSync{}
	sent := time.UnixMilli(1_700_000_000_000)
	for i := range 16 {
		sent := sent.Add(time.Duration(i) * 10 * time.Second)
		s.AddClock(sent, sent.Add(20*time.Millisecond), api.RoomClock{Time: sent.Add(10 * time.Millisecond).UnixMilli()})
	}
	// The local clock was set back by half a minute during the request.
	s.AddClock(sent.Add(160*time.Second), sent.Add(130*time.Second), api.RoomClock{Time: sent.Add(160 * time.Second).UnixMilli()})
	if s.Offset() != 0 {
		t.Errorf("after an answer that came before it was asked for: %s, want 0s", s.Offset())
	}
	s.AddClock(sent.Add(140*time.Second), sent.Add(140*time.Second+40*time.Millisecond),
		api.RoomClock{Time: sent.Add(170*time.Second + 20*time.Millisecond).UnixMilli()})
	if s.Offset() != 30*time.Second {
		t.Errorf("after it was set back: %s, want 30s", s.Offset())
	}
}

func TestAPlayerDriftsBackBeforeItSeeks(t *testing.T) {
	s := &PlaybackSync{Drift: 40 * time.Millisecond, Jump: time.Second}
	now := time.UnixMilli(1_700_000_010_000)
	if c := s.Correct(now, 0); !c.Paused || c.Seek {
		t.Errorf("where nothing is known: %+v", c)
	}
	playing := api.Playback{Generation: 1, Version: 3, Position: 5000, ServerTime: 1_700_000_000_000, Rate: 1.5}
	if !s.Take(playing) || s.Take(playing) || s.Take(api.Playback{Generation: 1, Version: 2}) || s.Take(api.Playback{Version: 9}) {
		t.Error("an older state was taken, or a newer one was not")
	}
	want := 20 * time.Second
	for _, c := range []struct {
		off  time.Duration
		seek bool
		rate float64
	}{
		{0, false, 1.5}, {40 * time.Millisecond, false, 1.5}, {-30 * time.Millisecond, false, 1.5},
		{50 * time.Millisecond, false, 1.5 * 0.95}, {-50 * time.Millisecond, false, 1.5 * 1.05},
		{900 * time.Millisecond, false, 1.5 * 0.9}, {time.Second, true, 1.5}, {-3 * time.Second, true, 1.5},
	} {
		got := s.Correct(now, want+c.off)
		if got.Paused || got.To != want || got.Seek != c.seek || got.Rate < c.rate-1e-9 || got.Rate > c.rate+1e-9 {
			t.Errorf("off by %s: %+v, want %+v", c.off, got, c)
		}
	}
	s.Take(api.Playback{Generation: 2, Position: 7000, ServerTime: 1_700_000_000_000, Rate: 1, Paused: true})
	if c := s.Correct(now, 7020*time.Millisecond); !c.Paused || !c.Seek || c.To != 7*time.Second {
		t.Errorf("paused: %+v", c)
	}
}
