package wholeserver

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// heard returns what has been pushed to a wire: on which channel, and what.
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
			on := "own"
			if strings.HasPrefix(push.Push.Channel, api.GroupChannel("")) {
				on = "chat"
			}
			e := push.Push.Pub.Data
			switch {
			case push.Push.Unsubscribe != nil:
				all = append(all, on+" ends")
			case e.Type == api.EventMessageNew && e.Data.System != nil:
				all = append(all, on+" "+e.Data.System.Event)
			case e.Type == api.EventMessageNew:
				all = append(all, on+" "+e.Data.Text)
			case e.Type == api.EventGroupLeft:
				all = append(all, on+" left")
			}
		default:
			slices.Sort(all) // two channels have no order among each other
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
		if err != nil {
			t.Fatal(err)
		}
		g := made.Group.ID
		says := func(text string) {
			t.Helper()
			if _, err := f.ann.Send(ctx, client.ChatIn(g), api.Send{ClientID: text, Content: api.Content{Kind: api.MessageText, Text: text}}); err != nil {
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
		stranger := f.open(t, "")
		stranger.connect(eve.Tokens().AccessToken)
		for _, frame := range []string{open, strings.Replace(open, g, "AAAAAAAAAAAA", 1), strings.Replace(open, g, f.bobID, 1), strings.Replace(open, g, "", 1)} {
			stranger.say(websocket.MessageText, frame)
			if got := stranger.hear(); got != "2 error 103 permission denied" {
				t.Errorf("%s by a stranger: %s", frame, got)
			}
		}
		w := f.open(t, "")
		w.connect(f.bob.Tokens().AccessToken)
		w.say(websocket.MessageText, open)
		if got := w.hear(); got != "2 ok" {
			t.Fatalf("subscribe: %s", got)
		}
		w.heard()
		says("one")
		hears(w, "chat one", "own one")
		if err := f.ann.RemoveFromGroup(ctx, g, f.bobID); err != nil {
			t.Fatal(err)
		}
		if got := w.heard(); !slices.Contains(got, "chat ends") || !slices.Contains(got, "own left") {
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
