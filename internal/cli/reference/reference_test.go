package reference

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/app"
)

func TestEachChannelIsDescribedWithItsOwnEvents(t *testing.T) {
	var text bytes.Buffer
	if err := asyncAPI(t.Context(), &text, Program{}); err != nil {
		t.Fatal(err)
	}
	var document struct {
		Channels map[string]struct {
			Address  string
			Version  int `json:"x-version"`
			Messages map[string]struct {
				Payload struct {
					Properties struct{ Time, Data map[string]any }
				}
			}
		}
	}
	if err := json.Unmarshal(text.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{}
	for _, c := range document.Channels {
		for event, m := range c.Messages {
			listed[c.Address] = append(listed[c.Address], event)
			if inRedis := m.Payload.Properties.Time["type"] == "integer"; inRedis != (c.Version > 0) || inRedis && m.Payload.Properties.Data == nil {
				t.Errorf("%s: %s has the version %d and the payload %v", c.Address, event, c.Version, m.Payload)
			}
		}
	}
	has := func(channel, event string) bool { return slices.Contains(listed[channel], event) }
	if has("{user}", api.EventRoomSaid) || !has("{user}", api.EventRoomGone) || !has("room/{room}", api.EventRoomSaid) ||
		has("chat/{group}", api.EventChatStands) || !has("chat/{group}", api.EventMessageNew) {
		t.Errorf("the channels of the socket have %v", listed)
	}
	for _, schema := range app.Keys() {
		for _, f := range schema.Families() {
			if at := "{key_prefix}:" + f.Pattern; strings.HasPrefix(f.Pattern, "channel:") &&
				(len(f.Carries) == 0 || len(listed[at]) != len(f.Carries)) {
				t.Errorf("%s is described with %q", at, listed[at])
			}
		}
	}
}
