package messaging

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

func TestAConversationThatSomethingElseHoldsHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, sqldbtest.Default(t).Open(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	who := w.join(6)
	var batch []sending
	for _, peer := range who[1:] {
		w.says(who[0], peer, "Hi")
		found, err := w.store.findPairs(t.Context(), w.store.db, []pair{pairOf(who[0], peer)}, "")
		w.must(err)
		batch = append(batch, sending{conv: found[pairOf(who[0], peer)], from: who[0], to: With(peer), clientID: "again", hash: "h", said: said{Content: api.Content{Text: "Hi again"}}})
	}
	held := batch[len(batch)/2]
	sqldbtest.Hold(t, w.store.db, "SELECT id FROM conversations WHERE id = ? FOR UPDATE", held.conv)
	out, err := w.commit(t.Context(), batch)
	w.must(err)
	for i, in := range batch {
		var want error
		if in.conv == held.conv {
			want = ErrStore
		}
		wants(t, fmt.Sprint("message ", i), out[i].refusal, want)
		if got := w.reads(who[0], in.to.peer); slices.Contains(got, "Hi again") != (want == nil) {
			t.Errorf("message %d: %q are there", i, got)
		}
	}
}
