package accounts

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/events"
)

// hear waits for an event of that type and decodes it.
func hear(t *testing.T, sub *events.Subscription, typ string, data any) {
	t.Helper()
	for {
		select {
		case e := <-sub.C:
			if e.Type != typ {
				continue
			}
			if err := json.Unmarshal(e.Data, data); err != nil {
				t.Fatal(err)
			}
			return
		case <-time.After(patience):
			t.Fatalf("another node heard of no %s", typ)
		}
	}
}

func TestDevicesHearOfAChangeOnceItIsCommitted(t *testing.T) {
	w := onSQLite(t, Settings{})
	w.listen()
	other := w.neighbour()
	ann := w.join("ann@example.org", "").User.ID
	sub := other.bus.Subscribe(ann.String())
	defer sub.Close()
	w.rename(ann, "Bea")
	var u api.User
	if hear(t, sub, api.EventAccountUpdated, &u); u.Name != "Bea" {
		t.Errorf("got %+v, want the new name", u)
	}
}
