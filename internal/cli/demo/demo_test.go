package demo

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/servicekeys"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// rules are the rules of a server with default settings.
var rules = checkin.Settings{MakeupDays: 30, MakeupLimit: 3, FreezeEvery: 10, FreezeMax: 2}

// TestYear_FollowsTheRulesOfFreezes replays the rules on the missed days.
func TestYear_FollowsTheRulesOfFreezes(t *testing.T) {
	for _, now := range []time.Time{time.Date(2026, 3, 1, 0, 5, 0, 0, time.UTC), time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)} {
		for i, s := range year(now, rules) {
			var replayed story
			for _, r := range s.rows {
				if r.Kind != streak.Tapped.String() {
					continue
				}
				at, err := time.Parse(time.RFC3339Nano, r.At)
				if err != nil || at.After(now) {
					t.Fatalf("%s checks in at %s, after %s (%v)", r.Email, r.At, now, err)
				}
				day, err := civil.ParseDay(r.Day)
				if err != nil || clockOf(i).Today(at) != day {
					t.Fatalf("%s checks in for %s at %s (%v)", r.Email, r.Day, r.At, err)
				}
				replayed.checkIn(i, streak.Freezes{Every: rules.FreezeEvery, Max: rules.FreezeMax}, day, at, r.Words, r.Minutes)
			}
			if !slices.Equal(replayed.rows, s.rows) {
				t.Errorf("at %s the days of %s are not those that the rules give", now, cast[i].name)
			}
		}
	}
}

// visitor logs a member of the cast in to a server.
func visitor(t *testing.T, s *testkit.Server, db *sqldb.DB, i int, key string) *client.Client {
	t.Helper()
	found, err := users(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	service, err := client.New(s.URL, client.WithServiceKey(key), client.WithHTTPClient(s.HTTP))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := service.IssueTokens(t.Context(), found[i].ID.String(), api.ServiceTokens{Device: "visitor"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.URL, client.WithTokens(tokens), client.WithHTTPClient(s.HTTP))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The story of the cast depends on the day of the demo. On each day, a group is older than its first message.
func TestStage_GroupsBeginAfterFriendshipsAndBeforeMessages(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 1, 4, 45, 0, 0, time.UTC)
	for i := range 40 {
		s := &stage{now: first.AddDate(0, 0, i)}
		s.stories = year(s.now, rules)
		s.befriend()
		for _, c := range chats {
			if c.group == nil {
				continue
			}
			created := s.created(c.group)
			for _, m := range c.group.members {
				if friends := s.friends[[2]int{c.group.owner, m}]; friends <= created {
					t.Errorf("on %s, %s of %s ago invites %s, a friend for %s", s.now.Format(time.DateOnly), c.group.name, created, cast[m].name, friends)
				}
			}
			if said := c.lines[0].ago; said >= created-3*time.Hour {
				t.Errorf("on %s, %s is created %s ago, and its first message is of %s ago", s.now.Format(time.DateOnly), c.group.name, created, said)
			}
		}
	}
}

func TestDemo_ShowsEachAreaWithoutContradictions(t *testing.T) {
	t.Parallel()
	cfg := app.Config{Data: t.TempDir(), Checkin: rules}
	config.Defaults(&cfg)
	began := time.Now()
	filled, err := Fill(t.Context(), cfg)
	if err != nil || filled.Existed || filled.People != int64(len(cast)) {
		t.Fatalf("got %+v, %v; want a demo of %d people", filled, err, len(cast))
	}
	server := testkit.Start(t, func(c *app.Config) { c.Data, c.Checkin, c.Live.UDP = cfg.Data, rules, "127.0.0.1:0" })
	db := server.SQL(t)
	_, key, err := servicekeys.NewAdmin(db).Create(t.Context(), "test", []servicekeys.Scope{servicekeys.TokensIssue}, maxRate, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := visitor(t, server, db, ada, key)
	ctx := t.Context()

	t.Run("account", func(t *testing.T) {
		me, err := c.Me(ctx)
		if err != nil || me.Avatar == "" || me.Bio == "" || began.Sub(me.Created.Time) < 360*24*time.Hour {
			t.Errorf("got %+v, %v; want a picture, a text and an account of last year", me, err)
		}
		if devices, err := c.Sessions(ctx); err != nil || len(devices) != 1 {
			t.Errorf("got devices %+v, %v; want the visitor's alone", devices, err)
		}
	})
	t.Run("friends", func(t *testing.T) {
		list, err := c.Friends(ctx, "", "", 100)
		if err != nil || len(list.Friends) != len(friends) {
			t.Fatalf("got %d friends, %v; want %d", len(list.Friends), err, len(friends))
		}
		months := map[string]bool{}
		for _, f := range list.Friends {
			months[f.Since.Format("2006-01")] = true
			if f.Since.After(began.Add(-7 * 24 * time.Hour)) {
				t.Errorf("a friend of %s; want all friendships older than a week", f.Since)
			}
		}
		if len(months) < 4 {
			t.Errorf("the friendships are of the months %v; want four at least", months)
		}
		in, err := c.FriendRequests(ctx, "in", "", 10)
		if err != nil || len(in.Requests) != 2 {
			t.Errorf("got requests %+v, %v; want two", in, err)
		}
		out, err := c.FriendRequests(ctx, "out", "", 10)
		if err != nil || len(out.Requests) != 1 {
			t.Errorf("got own requests %+v, %v; want one", out, err)
		}
		if n, err := c.UnreadRequests(ctx); err != nil || n != 2 {
			t.Errorf("got %d unread requests, %v; want 2", n, err)
		}
		if blocks, err := c.Blocks(ctx, "", 10); err != nil || len(blocks.Blocks) != 1 {
			t.Errorf("got blocks %+v, %v; want one", blocks, err)
		}
	})
	t.Run("chats", func(t *testing.T) {
		list, err := c.Chats(ctx, "", "", 50)
		if err != nil || len(list.Chats) != len(chats) {
			t.Fatalf("got %d chats, %v; want %d", len(list.Chats), err, len(chats))
		}
		var unread, pinned int
		seen := map[string]int{}
		for _, chat := range list.Chats {
			unread += int(chat.Unread)
			if chat.Pinned != nil {
				pinned++
			}
			messages, err := c.Messages(ctx, chat.Chat, client.MessageRange{})
			if err != nil {
				t.Fatal(err)
			}
			if chat.Read+chat.Unread > chat.Seq {
				t.Errorf("chat %s of %d messages is read to %d with %d unread", chat.Chat, chat.Seq, chat.Read, chat.Unread)
			}
			for n, m := range messages.Messages {
				if n > 0 && m.At.Before(messages.Messages[n-1].At.Time) {
					t.Errorf("message %d of %s is older than the one before", m.Seq, chat.Chat)
				}
				text, _ := json.Marshal(m)
				var has map[string]any
				_ = json.Unmarshal(text, &has)
				seen[m.Kind]++
				for _, part := range []string{"reply_to", "reactions", "mentions", "recalled"} {
					if has[part] != nil {
						seen[part]++
					}
				}
			}
		}
		if unread != 5 || pinned != 1 {
			t.Errorf("got %d unread and %d pinned; want 5 and 1", unread, pinned)
		}
		for _, part := range []string{"text", "image", "file", "system", "reply_to", "reactions", "mentions", "recalled"} {
			if seen[part] == 0 {
				t.Errorf("the chats have no %s: %v", part, seen)
			}
		}
	})
	t.Run("presence", func(t *testing.T) {
		list, err := c.Friends(ctx, "", "", 100)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, f := range list.Friends {
			ids = append(ids, f.User.ID)
		}
		seen, err := c.PresenceAndLastSeen(ctx, ids...)
		if err != nil {
			t.Fatal(err)
		}
		times := map[time.Time]bool{}
		for _, p := range seen.Users {
			if p.LastSeen == nil || p.LastSeen.After(time.Now()) {
				t.Errorf("%s was last seen at %v", p.User, p.LastSeen)
				continue
			}
			times[p.LastSeen.Time] = true
		}
		if len(times) < 5 {
			t.Errorf("the friends were last seen at %d times; want five at least", len(times))
		}
	})
	t.Run("files and notices", func(t *testing.T) {
		list, err := c.Transfers(ctx, "")
		if err != nil || len(list.Transfers) != 2 {
			t.Errorf("got transfers %+v, %v; want two", list, err)
		}
		for _, f := range list.Transfers {
			if n, err := c.Download(ctx, f.ID, 0, io.Discard); f.Status == api.TransferDone && (err != nil || n != f.Size) {
				t.Errorf("got %d bytes of %s, %v; want %d", n, f.Name, err, f.Size)
			}
		}
		eventually.True(t, "the announcement to be delivered", func() bool {
			notices, err := c.Notices(ctx, "", 50)
			return err == nil && len(notices.Notices) >= 2
		})
	})
	t.Run("check-in", func(t *testing.T) { checkIns(t, c, began) })
	t.Run("rooms and live", func(t *testing.T) { rooms(t, server, db, c) })

	if again, err := Fill(t.Context(), cfg); err != nil || !again.Existed {
		t.Errorf("the second time got %+v, %v; want nothing changed", again, err)
	}
}

// checkIns compares what the page shows about Ada's days.
func checkIns(t *testing.T, c *client.Client, now time.Time) {
	ctx := t.Context()
	status, err := c.CheckinStatus(ctx)
	if err != nil || status.Today || status.Streak != 11 {
		t.Fatalf("got %+v, %v; want a streak of 11 that waits for today", status, err)
	}
	made, err := c.Makeups(ctx, "", 50)
	if err != nil || made.Left == 0 || len(made.Days) < made.Left {
		t.Errorf("got %+v, %v; want as many days that can be made up as make-ups left", made, err)
	}
	signed, covered := map[string]bool{}, map[string]bool{}
	for y := now.Year() - 1; y <= now.Year(); y++ {
		year, err := c.CheckinYear(ctx, y)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range year.Days {
			signed[d] = true
		}
		for _, d := range year.Covered {
			covered[d] = true
		}
	}
	if status.FreezesUsed == 0 || status.Total != len(signed) || status.FreezesUsed != len(covered) ||
		status.Freezes+status.FreezesUsed != len(signed)/10 {
		t.Errorf("got %+v; the calendar has %d days and %d covered", status, len(signed), len(covered))
	}
	for _, d := range made.Days {
		if signed[d] || covered[d] {
			t.Errorf("%s can be made up, and counts already", d)
		}
	}
	for _, board := range []string{"streak", "total_days", "week", "month"} {
		got, err := c.Board(ctx, board, client.BoardQuery{Limit: 50})
		least := map[string]int{"streak": 20, "total_days": 20}[board] // a week or a month may have just begun
		if err != nil || len(got.Entries) < least {
			t.Errorf("got %d on the board %s, %v; want %d at least", len(got.Entries), board, err, least)
			continue
		}
		values := map[int]bool{}
		for _, e := range got.Entries {
			values[int(e.Value)] = true
		}
		if board == "streak" && (len(values) < 5 || got.Me == nil || int(got.Me.Value) != status.Streak) {
			t.Errorf("got %d different streaks and Ada's as %+v; want hers as %d", len(values), got.Me, status.Streak)
		}
	}
}

// rooms plays the demo: users are online, the film restarts, and the stream is live.
func rooms(t *testing.T, server *testkit.Server, db *sqldb.DB, c *client.Client) {
	mine, err := c.MyRooms(t.Context(), "", 10)
	if err != nil || len(mine.Rooms) != 2 {
		t.Fatalf("got rooms %+v, %v; want two", mine, err)
	}
	var film string
	for _, r := range mine.Rooms {
		if r.Room.Name == FilmRoom {
			film = r.Room.ID
		}
	}
	scene, err := c.RoomScene(t.Context(), film)
	if err != nil || scene.Playback.Paused || scene.Playback.Item == "" || scene.Room.Loop != "item" {
		t.Errorf("got %+v, %v; want a film that plays", scene, err)
	}
	flying, err := c.Danmaku(t.Context(), film, scene.Playback.Item, 0, 60_000, "", 100)
	if err != nil || len(flying.Danmaku) != len(comments) {
		t.Errorf("got %d danmaku, %v; want %d", len(flying.Danmaku), err, len(comments))
	}
	if said, err := c.RoomChat(t.Context(), film, 0, 50); err != nil || len(said.Lines) != len(spoken) {
		t.Errorf("got %+v, %v; want %d lines", said, err, len(spoken))
	}
	ctx, leave := context.WithCancel(t.Context())
	played := make(chan error, 1)
	go func() { played <- Play(ctx, db, server.URL, slog.New(slog.NewTextHandler(t.Output(), nil))) }()
	on, err := c.Command(t.Context(), film, api.PlaybackCommand{Generation: scene.Playback.Generation, Version: scene.Playback.Version,
		Do: api.PlaybackSeek, Position: 59_000})
	if err != nil {
		t.Error(err)
	}
	eventually.True(t, "the film to begin again", func() bool {
		now, err := c.Playback(t.Context(), film)
		return err == nil && now.Version > on.Version && now.Item == on.Item && now.Position < 1000 && !now.Paused
	})
	eventually.True(t, "viewers of the film", func() bool {
		online, err := c.RoomOnline(t.Context(), film)
		return err == nil && len(online.Viewers) == len(audience[FilmRoom])
	})
	eventually.True(t, "friends on line, away and busy", func() bool {
		online, err := c.FriendsOnline(t.Context())
		statuses := map[string]bool{}
		for _, p := range online.Users {
			statuses[p.Status] = true
		}
		return err == nil && len(statuses) == 3
	})
	eventually.True(t, "the stream", func() bool {
		live, err := c.LiveStreams(t.Context(), "", 10)
		return err == nil && len(live.Streams) == 1
	})
	leave()
	if err := <-played; err != nil {
		t.Errorf("the play ended with %v", err)
	}
}
