package wholeserver

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// heard is what a device's stream delivered until it ended.
type heard struct {
	text string
	took time.Duration // from its opening to its end
}

// listen opens a device's stream at a node.
func (p *deployment) listen(node int, d api.Tokens) <-chan heard {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), "GET", p.nodes[node].URL+"/v1/events", nil)
	must(p.t, err)
	r.Header.Set("Authorization", "Bearer "+d.AccessToken)
	began := time.Now()
	resp, err := p.nodes[node].HTTP.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("a stream: %v, %v", resp, err)
	}
	end := make(chan heard, 1)
	go func() {
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		end <- heard{string(text), time.Since(began)}
	}()
	return end
}

// A device that is logged out, in any way and on any node, receives no later event.
func TestAStreamEndsWithItsSessionOnEveryNode(t *testing.T) {
	for name, end := range map[string]func(p *deployment, owner, d api.Tokens) error{
		"logged out by another device": func(p *deployment, owner, d api.Tokens) error {
			return p.client(0, client.WithTokens(owner)).EndSession(p.t.Context(), d.Device)
		},
		"kicked by an operator": func(p *deployment, owner, d api.Tokens) error {
			user, err := ids.Parse[accounts.User](owner.User.ID)
			if err != nil {
				return err
			}
			device, err := ids.Parse[accounts.Session](d.Device)
			if err != nil {
				return err
			}
			_, err = accounts.NewDirectory(p.nodes[0].SQL(p.t)).Kick(p.t.Context(), user, device)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := deploy(t, 2)
				owner, d := p.enter(0), p.enter(1)
				here, there := p.listen(0, d), p.listen(1, d)
				stays := p.listen(1, owner)
				bubble.Sleep(time.Second)
				must(t, end(p, owner, d))
				bubble.Sleep(2 * time.Second) // an operator's change is applied through the queue
				name := "after the session's end"
				if _, err := p.client(0, client.WithTokens(owner)).UpdateMe(t.Context(), api.UserUpdate{Name: &name}); err != nil {
					t.Fatal(err)
				}
				for node, ended := range []<-chan heard{here, there} {
					h := <-ended
					if strings.Contains(h.text, name) || h.took > 4*time.Second {
						t.Errorf("node %d: the stream lasted %s and brought %s", node, h.took, h.text)
					}
				}
				synctest.Wait()
				select {
				case h := <-stays:
					t.Errorf("the other device's stream ended: %+v", h)
				default:
				}
			})
		})
	}
}

// The node with the stream receives nothing from the others: no end of the session, and no event. It must not publish
// its own events to a logged-out device.
func TestANodeThatIsCutOffTellsALoggedOutDeviceNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		owner, d := p.enter(0), p.enter(1)
		p.warm(1, owner)
		there := p.listen(1, d)
		p.wires[1].BlackHole()
		p.revoke(0, d)
		bubble.Sleep(maxStale)
		name := "after the session's end"
		if _, err := p.client(1, client.WithTokens(owner)).UpdateMe(t.Context(), api.UserUpdate{Name: &name}); err != nil {
			t.Fatal(err)
		}
		if h := <-there; strings.Contains(h.text, name) {
			t.Errorf("the stream lasted %s and brought %s", h.took, h.text)
		}
		p.wires[1].Heal()
	})
}
