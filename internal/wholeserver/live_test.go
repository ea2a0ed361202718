package wholeserver

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/live/livetest"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// onAir starts nodes that serve live streams on loopback.
func onAir(t *testing.T, n int) *deployment {
	t.Helper()
	return deploy(t, n, func(c *app.Config) { c.Live.UDP = "127.0.0.1:0" })
}

// show publishes a picture at a node until the test ends.
func show(t *testing.T, node *testkit.Server, stream, key string, session *string) (p *livetest.Publisher) {
	t.Helper()
	eventually.NoError(t, "the publisher to be let in", func() (err error) { // an earlier publisher may still be disconnecting
		p, err = livetest.Publish(t.Context(), livetest.Camera{KeyEvery: time.Second},
			livetest.Post(node.HTTP, node.URL+"/v1/streams/"+stream+"/whip", key, session))
		return err
	})
	t.Cleanup(p.Close)
	return p
}

// look watches at a node, and waits for pictures.
func look(t *testing.T, node *testkit.Server, path, token string, session *string) *livetest.Viewer {
	t.Helper()
	v, err := livetest.Watch(t.Context(), livetest.Post(node.HTTP, node.URL+path, token, session))
	must(t, err)
	t.Cleanup(v.Close)
	eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 5 })
	return v
}

// status returns the status of a response other than 201.
func status(t *testing.T, err error) int {
	t.Helper()
	refused, ok := errors.AsType[*livetest.Refused](err)
	if !ok {
		t.Fatalf("got %v, want a refusal", err)
	}
	return refused.Status
}

func end(t *testing.T, node *testkit.Server, session, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, session, nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := node.HTTP.Do(req)
	must(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func makeStream(t *testing.T, c *client.Client, in api.StreamNew) api.StreamKeyed {
	t.Helper()
	made, err := c.CreateStream(t.Context(), in)
	must(t, err)
	return made
}

func TestAStreamIsPublishedByWHIPAndWatchedByWHEPOnEveryNode(t *testing.T) {
	nodes := onAir(t, 2).nodes
	ann := nodes[0].SignUp(t, "UTC")
	made := makeStream(t, ann, api.StreamNew{Title: "Sunday match"})
	id, path := made.Stream.ID, "/v1/streams/"+made.Stream.ID+"/whep"
	_, err := livetest.Watch(t.Context(), livetest.Post(nodes[1].HTTP, nodes[1].URL+path, made.Keys.Play, nil))
	if got := status(t, err); got != http.StatusConflict {
		t.Errorf("watching what is not live: %d", got)
	}
	var session, near, far string
	p := show(t, nodes[0], id, made.Keys.Publish, &session)
	if !strings.HasPrefix(session, nodes[0].URL+"/v1/streams/"+id+"/whip/") {
		t.Errorf("the session is %s", session)
	}
	for i, node := range nodes {
		_, err := livetest.Publish(t.Context(), livetest.Camera{},
			livetest.Post(node.HTTP, node.URL+"/v1/streams/"+id+"/whip", made.Keys.Publish, nil))
		if got := status(t, err); got != http.StatusConflict {
			t.Errorf("a second publisher at node %d: %d", i, got)
		}
	}
	here := look(t, nodes[0], path, made.Keys.Play, &near)
	there := look(t, nodes[1], path, made.Keys.Play, &far)
	late := look(t, nodes[1], path, ann.Tokens().AccessToken, nil)
	for what, v := range map[string]*livetest.Viewer{"at the publisher's node": here, "at another": there, "at another, later": late} {
		frames := v.Frames()
		for i, f := range frames {
			if i == 0 && !f.Key || i > 0 && f.Number != frames[i-1].Number+1 {
				t.Errorf("%s: picture %d of %d is %+v", what, i, len(frames), f)
			}
		}
	}
	eventually.True(t, "three to be counted at both nodes", func() bool {
		for i := range nodes {
			st, err := nodes[i].Client(t, client.WithTokens(ann.Tokens())).Stream(t.Context(), id)
			if err != nil || st.Live == nil || st.Live.Viewers != 3 || st.Live.Video != "VP8" {
				return false
			}
		}
		return true
	})
	// Other methods and headers of WHIP and WHEP.
	for _, method := range []string{http.MethodPatch, http.MethodPut} {
		if got, h, _ := nodes[0].Call(t, ann, method, strings.TrimPrefix(session, nodes[0].URL), ""); got != http.StatusMethodNotAllowed ||
			!strings.Contains(h.Get("Allow"), "DELETE") {
			t.Errorf("%s of a session: %d, allowed are %q", method, got, h.Get("Allow"))
		}
	}
	for _, at := range []string{"/whip", "/whep", "/whep/AAAAAAAAAAAA"} {
		if got, h, _ := nodes[0].Call(t, nil, http.MethodOptions, "/v1/streams/"+id+at, ""); got != http.StatusOK ||
			h.Get("Accept-Post") != "application/sdp" {
			t.Errorf("OPTIONS of %s: %d, Accept-Post %q", at, got, h.Get("Accept-Post"))
		}
	}
	for _, c := range []struct {
		what, at, token, body string
		want                  int
	}{
		{"no key", "/whip", "", "v=0", 401},
		{"a made-up key", "/whip", strings.Replace(made.Keys.Publish, "stoa_live_p", "stoa_live_pA", 1), "v=0", 401},
		{"the play key", "/whip", made.Keys.Play, "v=0", 403},
		{"the publish key", "/whep", made.Keys.Publish, "v=0", 403},
		{"somebody else's token", "/whep", nodes[0].SignUp(t, "UTC").Tokens().AccessToken, "v=0", 404},
		{"no offer", "/whep", made.Keys.Play, "hello", 400},
	} {
		_, err := livetest.Post(nodes[0].HTTP, nodes[0].URL+"/v1/streams/"+id+c.at, c.token, nil)(t.Context(), c.body)
		if got := status(t, err); got != c.want {
			t.Errorf("%s with %s: got %d, want %d", c.at, c.what, got, c.want)
		}
	}
	if got, _, body := nodes[0].Call(t, nil, http.MethodGet, "/v1/me", "", "Authorization",
		"Bearer "+made.Keys.Publish); got != http.StatusForbidden {
		t.Errorf("a key where users are wanted: %d %s", got, body)
	}
	// A DELETE at any node ends a session.
	if got := end(t, nodes[0], strings.Replace(far, nodes[1].URL, nodes[0].URL, 1), made.Keys.Play); got != http.StatusOK {
		t.Errorf("a viewer's end: %d", got)
	}
	eventually.True(t, "that viewer to be gone", func() bool { return there.Ended() })
	if got := end(t, nodes[1], strings.Replace(session, nodes[0].URL, nodes[1].URL, 1), made.Keys.Play); got != http.StatusForbidden {
		t.Errorf("a publisher's end by the play key: %d", got)
	}
	if here.Ended() || late.Ended() {
		t.Error("others were sent away")
	}
	if got := end(t, nodes[1], strings.Replace(session, nodes[0].URL, nodes[1].URL, 1), made.Keys.Publish); got != http.StatusOK {
		t.Errorf("a publisher's end: %d", got)
	}
	eventually.True(t, "all to be gone", func() bool { return here.Ended() && late.Ended() && p.Ended() })
	eventually.Equal(t, "an end again", http.StatusNotFound, func() int { return end(t, nodes[1], session, made.Keys.Publish) })
	eventually.True(t, "the stream to be free", func() bool {
		st, err := ann.Stream(t.Context(), id)
		return err == nil && st.Live == nil && st.LastLive != nil
	})
	show(t, nodes[1], id, made.Keys.Publish, nil) // at another node
	look(t, nodes[0], path, made.Keys.Play, nil)
}

// The publisher's node acquires the lease again, with another token.
func TestViewersAtAllNodesStayWhenRedisIsEmptied(t *testing.T) {
	p := onAir(t, 2)
	nodes := p.nodes
	ann := nodes[0].SignUp(t, "UTC")
	made := makeStream(t, ann, api.StreamNew{Title: "Sunday match"})
	id, path := made.Stream.ID, "/v1/streams/"+made.Stream.ID+"/whep"
	show(t, nodes[0], id, made.Keys.Publish, nil)
	here, there := look(t, nodes[0], path, made.Keys.Play, nil), look(t, nodes[1], path, made.Keys.Play, nil)
	p.memory.FlushAll()
	eventually.True(t, "the stream to be on the air again", func() bool {
		st, err := ann.Stream(t.Context(), id)
		return err == nil && st.Live != nil
	})
	n := len(there.Frames())
	eventually.True(t, "pictures of some seconds", func() bool { return there.Ended() || len(there.Frames()) > n+200 })
	if here.Ended() || there.Ended() {
		t.Errorf("sent away were the viewer at the publisher's node: %t, at the other: %t", here.Ended(), there.Ended())
	}
}

func TestALiveStreamOnAPlaylistIsWatchedByWhoIsInTheRoom(t *testing.T) {
	node := onAir(t, 1).nodes[0]
	ann, bob := node.SignUp(t, "UTC"), node.SignUp(t, "UTC")
	ctx := t.Context()
	made := makeStream(t, ann, api.StreamNew{Title: "Sunday match"})
	open := "open"
	yes := true
	room, err := ann.CreateRoom(ctx, api.RoomNew{Name: "The match", Access: &open, Guests: &yes})
	must(t, err)
	if _, err := bob.JoinRoom(ctx, room.Room.ID, api.RoomJoin{}); err != nil {
		t.Fatal(err)
	}
	if got, _, body := node.Call(t, ann, http.MethodPost, "/v1/rooms/"+room.Room.ID+"/playlist",
		`{"kind":"live","source":"AAAAAAAAAAAA"}`); got != http.StatusUnprocessableEntity {
		t.Errorf("a stream of nobody's: %d %s", got, body)
	}
	item, err := ann.AddToRoom(ctx, room.Room.ID, api.RoomItemNew{Kind: api.ItemLive, Source: made.Stream.ID, Title: "The match"})
	must(t, err)
	guest, err := node.Client(t).VisitRoom(ctx, room.Room.ID, api.RoomGuestNew{Name: "Visitor"})
	must(t, err)
	show(t, node, made.Stream.ID, ann.Tokens().AccessToken, nil)
	asGuest := node.Client(t, client.WithTokens(api.Tokens{AccessToken: guest.Token}))
	for who, c := range map[string]*client.Client{"a member": bob, "a guest": asGuest} {
		src, err := c.RoomItemSource(ctx, room.Room.ID, item.ID)
		if err != nil || src.Kind != api.ItemLive || src.Token == "" || src.Expires == nil || time.Until(src.Expires.Time) < time.Minute {
			t.Fatalf("%s: %+v, %v", who, src, err)
		}
		look(t, node, src.URL, src.Token, nil)
	}
	if _, err := ann.RotateStreamKeys(ctx, made.Stream.ID, api.StreamRotate{Play: true}); err != nil {
		t.Fatal(err)
	}
	src, err := bob.RoomItemSource(ctx, room.Room.ID, item.ID) // new tickets at once
	must(t, err)
	look(t, node, src.URL, src.Token, nil)
	must(t, ann.DeleteStream(ctx, made.Stream.ID))
	if got, _, body := node.Call(t, bob, http.MethodGet, "/v1/rooms/"+room.Room.ID+"/playlist/"+item.ID+"/source",
		""); got != http.StatusNotFound {
		t.Errorf("the source of a stream that was deleted: %d %s", got, body)
	}
}

// Each right ends at one node while its holder watches at another.
func TestLiveItem_IsWatchedByThoseInTheRoomOnly(t *testing.T) {
	nodes := onAir(t, 2).nodes
	ann, dan := nodes[0].SignUp(t, "UTC"), nodes[0].SignUp(t, "UTC")
	ctx := t.Context()
	made := makeStream(t, ann, api.StreamNew{Title: "Sunday match"})
	open, yes := "open", true
	place, err := ann.CreateRoom(ctx, api.RoomNew{Name: "The match", Access: &open, Guests: &yes})
	must(t, err)
	room := place.Room.ID
	item, err := ann.AddToRoom(ctx, room, api.RoomItemNew{Kind: api.ItemLive, Source: made.Stream.ID, Title: "The match"})
	must(t, err)
	show(t, nodes[0], made.Stream.ID, made.Keys.Publish, nil)
	guest := func() (string, *client.Client) {
		g, err := nodes[0].Client(t).VisitRoom(ctx, room, api.RoomGuestNew{Name: "Visitor"})
		must(t, err)
		return g.Me.ID, nodes[1].Client(t, client.WithTokens(api.Tokens{AccessToken: g.Token}))
	}
	member := func(c *client.Client) (string, *client.Client) {
		joined, err := c.JoinRoom(ctx, room, api.RoomJoin{})
		must(t, err)
		return joined.Me.ID, nodes[1].Client(t, client.WithTokens(c.Tokens()))
	}
	for _, c := range []struct {
		what string
		who  func() (string, *client.Client)
		end  func(user string) error
	}{
		{"a member is kicked", func() (string, *client.Client) {
			return member(nodes[0].SignUp(t, "UTC"))
		}, func(user string) error { return ann.KickFromRoom(ctx, room, user) }},
		{"a guest is kicked", guest, func(user string) error { return ann.KickFromRoom(ctx, room, user) }},
		{"a member is banned", func() (string, *client.Client) {
			return member(nodes[0].SignUp(t, "UTC"))
		}, func(user string) error { return ann.BanFromRoom(ctx, room, user) }},
		{"a member's device logs out", func() (string, *client.Client) { return member(dan) }, func(string) error { return dan.Logout(ctx) }},
		{"the room is closed", guest, func(string) error { return ann.CloseRoom(ctx, room) }},
	} {
		user, viewer := c.who()
		src, err := viewer.RoomItemSource(ctx, room, item.ID)
		must(t, err)
		v := look(t, nodes[1], src.URL, src.Token, nil)
		must(t, c.end(user))
		eventually.True(t, "watching to end after "+c.what, v.Ended)
		for i, node := range nodes {
			_, err := livetest.Watch(ctx, livetest.Post(node.HTTP, node.URL+src.URL, src.Token, nil))
			if got := status(t, err); got != http.StatusUnauthorized {
				t.Errorf("the ticket at node %d after %s: %d", i, c.what, got)
			}
		}
	}
}

func TestARecordingOfAStreamGoesOnAPlaylist(t *testing.T) {
	node := onAir(t, 1).nodes[0]
	ann := node.SignUp(t, "UTC")
	ctx := t.Context()
	yes := true
	made := makeStream(t, ann, api.StreamNew{Title: "Sunday match", Record: &yes})
	p := show(t, node, made.Stream.ID, made.Keys.Publish, nil)
	eventually.True(t, "some pictures", func() bool { return p.Sent.Load() > 30 })
	must(t, ann.StopStream(ctx, made.Stream.ID))
	var all api.StreamRecordings
	eventually.True(t, "the recording to be a file", func() bool {
		var err error
		if all, err = ann.StreamRecordings(ctx, made.Stream.ID, "", 0); err != nil {
			t.Fatal(err)
		}
		return len(all.Recordings) == 1
	})
	r := all.Recordings[0]
	if r.File == "" || r.Fault != "" {
		t.Fatalf("recorded %+v", r)
	}
	room, err := ann.CreateRoom(ctx, api.RoomNew{Name: "The match again"})
	must(t, err)
	item, err := ann.AddToRoom(ctx, room.Room.ID, api.RoomItemNew{Kind: api.ItemFile, Source: r.File})
	must(t, err)
	src, err := ann.RoomItemSource(ctx, room.Room.ID, item.ID)
	must(t, err)
	if got, h, body := node.Call(t, nil, http.MethodGet, src.URL, ""); got != http.StatusOK || int64(len(body)) != r.Bytes ||
		!strings.HasPrefix(body, "\x1aE\xdf\xa3") {
		t.Errorf("the file: %d, %d bytes of %d, %q", got, len(body), r.Bytes, h.Get("Content-Type"))
	}
}
