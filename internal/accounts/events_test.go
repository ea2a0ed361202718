package accounts

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
)

func TestDevicesHearOfAChangeOnceItIsCommitted(t *testing.T) {
	w := onSQLite(t, Settings{})
	w.listen()
	other := w.neighbour()
	ann := w.join("ann@example.org", "").User.ID
	sub := other.bus.Subscribe(ann.String())
	defer sub.Close()
	w.rename(ann, "Bea")
	select {
	case e := <-sub.C:
		var u api.User
		if err := json.Unmarshal(e.Data, &u); err != nil || e.Type != api.EventAccountUpdated || u.Name != "Bea" {
			t.Errorf("got %+v, %v, want the new name", e, err)
		}
	case <-time.After(patience):
		t.Error("another node heard nothing")
	}
}
