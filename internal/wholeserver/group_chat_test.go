package wholeserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// heard returns the pushes to a wire, each with its channel.
func (w *wire) heard() (all []string) {
	bubble.Sleep(time.Second)
	for {
		select {
		case line := <-w.told:
			var push struct {
				Push struct {
					Channel     string
					Unsubscribe *struct{ Code int }
					Pub         struct {
						Data struct {
							Type string
							Data struct {
								Text   string
								System *api.System
							}
						}
					}
				}
			}
			if err := json.Unmarshal([]byte(line), &push); err != nil {
				w.t.Error(err)
			}
			on, known := "own", api.UserEvents
			if strings.HasPrefix(push.Push.Channel, api.GroupChannel("")) {
				on, known = "chat", api.ChatEvents
			}
			e := push.Push.Pub.Data
			if e.Type != "" && known[e.Type] == nil {
				w.t.Errorf("%s came on the %s channel, which has no such event", e.Type, on)
			}
			switch {
			case push.Push.Unsubscribe != nil:
				all = append(all, fmt.Sprintf("%s ends %d", on, push.Push.Unsubscribe.Code))
			case e.Type == api.EventMessageNew && e.Data.System != nil:
				all = append(all, on+" "+e.Data.System.Event)
			case e.Type == api.EventMessageNew:
				all = append(all, on+" "+e.Data.Text)
			case e.Type == api.EventGroupLeft:
				all = append(all, on+" left")
			}
		default:
			slices.Sort(all) // two channels have no order between them
			return all
		}
	}
}

func TestWhoHasAGroupOpenHearsItUntilTheyAreOut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFrames(t)
		ctx := t.Context()
		eve := f.SignUp(t, "UTC")
		made, err := f.ann.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{f.bobID}})
		must(t, err)
		g := made.Group.ID
		says := func(text string) {
			t.Helper()
			if _, err := f.ann.Send(ctx, client.ChatIn(g), api.Send{ClientID: text,
				Content: api.Content{Kind: api.MessageText, Text: text}}); err != nil {
				t.Fatal(err)
			}
		}
		hears := func(w *wire, want ...string) {
			t.Helper()
			if got := w.heard(); !slices.Equal(got, want) {
				t.Errorf("heard %q, want %q", got, want)
			}
		}
		open := `{"id":2,"subscribe":{"channel":"` + api.GroupChannel(g) + `"}}`
		stranger := openWire(t, f.Server, "")
		stranger.connect(eve.Tokens().AccessToken)
		for _, frame := range []string{open, strings.Replace(open, g, "AAAAAAAAAAAA", 1), strings.Replace(open, g, f.bobID, 1),
			strings.Replace(open, g, "", 1)} {
			stranger.say(websocket.MessageText, frame)
			if got := stranger.hear(); got != "2 error 103 permission denied" {
				t.Errorf("%s by a stranger: %s", frame, got)
			}
		}
		w := openWire(t, f.Server, "")
		w.connect(f.bob.Tokens().AccessToken)
		w.subscribe(api.GroupChannel(g))
		w.heard()
		says("one")
		hears(w, "chat one", "own one")
		must(t, f.ann.RemoveFromGroup(ctx, g, f.bobID))
		if got := w.heard(); !slices.Contains(got, "chat ends 2000") || !slices.Contains(got, "own left") {
			t.Errorf("who is removed heard %q", got)
		}
		says("two")
		hears(w)
		hears(stranger)
		w.say(websocket.MessageText, open)
		if got := w.hear(); got != "2 error 103 permission denied" {
			t.Errorf("subscribe after one has left: %s", got)
		}
	})
}

func TestWhoHasAGroupOpenCostsSQLNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFrames(t)
		made, err := f.ann.CreateGroup(t.Context(), api.GroupNew{Name: "Rowing", Members: []string{f.bobID}})
		must(t, err)
		w := openWire(t, f.Server, "")
		w.connect(f.bob.Tokens().AccessToken)
		w.subscribe(api.GroupChannel(made.Group.ID))
		w.heard()
		// A row that no check reads makes no difference.
		_, err = f.db.ExecContext(t.Context(), "DELETE FROM chat_members WHERE user_id = ? AND conversation = ?", f.bobID, made.Group.ID)
		must(t, err)
		bubble.Sleep(100 * time.Second) // three checks and more
		if got := w.heard(); len(got) > 0 {
			t.Errorf("heard %q", got)
		}
	})
}

// A node that is cut off from Redis removes a member, and dies before it can publish that.
func TestWhoIsOutOfAGroupHearsItNoLongerThoughTheNodeThatTookThemOutHasDied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, ctx := deploy(t, 2), t.Context()
		bob, eve := p.join(0, "Bob"), p.join(1, "Eve")
		befriend(t, bob.c, eve.c)
		made, err := bob.c.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{eve.id}})
		must(t, err)
		g := made.Group.ID
		beside := p.client(1, client.WithTokens(bob.c.Tokens()))
		w := openWire(t, p.nodes[1], "")
		w.connect(eve.c.Tokens().AccessToken)
		w.subscribe(api.GroupChannel(g))
		_, err = beside.Send(ctx, client.ChatIn(g), saying("one"))
		must(t, err)
		if got := w.heard(); !slices.Contains(got, "chat one") {
			t.Fatalf("a member heard %q", got)
		}
		p.wires[0].Refuse()
		must(t, bob.c.RemoveFromGroup(ctx, g, eve.id))
		p.nodes[0].Stop()
		bubble.Sleep(30 * time.Second)
		_, err = beside.Send(ctx, client.ChatIn(g), saying("two"))
		must(t, err)
		if got := w.heard(); !slices.Contains(got, "chat ends 2000") || slices.Contains(got, "chat two") {
			t.Errorf("who was removed heard %q", got)
		}
	})
}

// SQL becomes unavailable between the two checks of a subscriber's rights. A user who still may subscribe must not
// treat that as the end of the channel.
func TestWhoSubscribesAsSQLGoesAwayIsAskedToSubscribeAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, ctx := deploy(t, 2), t.Context()
		bob, eve := p.join(0, "Bob"), p.join(1, "Eve")
		befriend(t, bob.c, eve.c)
		made, err := bob.c.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{eve.id}})
		must(t, err)
		db := p.nodes[0].SQL(t)
		w := openWire(t, p.nodes[1], "")
		w.connect(eve.c.Tokens().AccessToken)
		p.wires[1].Delay(200 * time.Millisecond) // delays the channel's subscription
		w.say(websocket.MessageText, `{"id":2,"subscribe":{"channel":"`+api.GroupChannel(made.Group.ID)+`"}}`)
		bubble.Sleep(100 * time.Millisecond)
		_, err = db.ExecContext(ctx, "ALTER TABLE chat_members RENAME TO away")
		must(t, err)
		if got := w.hear(); got != "2 ok" {
			t.Fatalf("subscribe: %s", got)
		}
		if got := w.heard(); !slices.Equal(got, []string{"chat ends 2500"}) {
			t.Errorf("who subscribed heard %q", got)
		}
		_, err = db.ExecContext(ctx, "ALTER TABLE away RENAME TO chat_members")
		must(t, err)
	})
}
