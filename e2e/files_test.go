package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// uploads is a user of a world who sends files to another one, one after another: offered ones, and files of messages.
// An upload resumes from the stored offset. No part is stored twice, and each file is complete.
type uploads struct {
	*world
	from, to []*client.Client // at each node
	ids      [2]string        // of the users

	mu   sync.Mutex
	sent []upload // since the last check

	checked [2]int // files: offered ones, and files of messages
}

// upload is an acknowledged file. seq is its message; 0 for an offered file.
type upload struct {
	id      string
	seq     int64
	content []byte
}

func newUploads(w *world) *uploads {
	users := w.take(2)
	return &uploads{world: w, from: w.clients(users[0]), to: w.clients(users[1]), ids: [2]string{users[0].id, users[1].id}}
}

func (u *uploads) begin() {
	u.work(1, 300*time.Millisecond, func(rng *rand.Rand, _ int) {
		u.mu.Lock()
		waiting := len(u.sent)
		u.mu.Unlock()
		if waiting < 6 { // until the next check
			u.send(rng, rng.IntN(2) == 0, func(upload) {})
		}
	})
}

// killDuring sends a file to a node that is killed in the middle of the upload. The other node continues the upload.
func (u *uploads) killDuring(n int, message bool) {
	u.send(u.rng, message, func(file upload) {
		half := &struck{bytes.NewReader(file.content), 4<<20 + 1, u.nodes[n].Kill}
		if err := u.from[n].Upload(u.t.Context(), file.id, half, half.Size()); !errors.Is(err, client.ErrUnreachable) {
			u.t.Fatalf("an upload to a killed node: %v", err)
		}
		eventually.True(u.t, "the node of the upload to end", u.nodes[n].isDown)
	})
}

// send sends an offered file, or a message with a file. It calls begin before it uploads the file.
func (u *uploads) send(rng *rand.Rand, message bool, begin func(upload)) {
	ctx := u.t.Context()
	file := upload{content: make([]byte, 5<<20+77)}
	_, _ = rand.NewChaCha8([32]byte{byte(rng.Uint32()), byte(rng.Uint32())}).Read(file.content)
	offer := api.TransferOffer{Name: "file", Size: int64(len(file.content))}
	if !message {
		offer.To = u.ids[1]
	}
	u.retry(rng, "an offer", func(n int) error {
		offered, err := u.from[n].OfferFile(ctx, offer)
		file.id = offered.ID
		return err
	})
	if !message {
		u.retry(rng, "an acceptance", func(n int) error {
			_, err := u.to[n].AcceptTransfer(ctx, file.id)
			if client.CodeOf(err) == "transfer.ended" { // an earlier try had no response
				return nil
			}
			return err
		})
	}
	begin(file)
	u.retry(rng, "an upload", func(n int) error {
		return u.from[n].Upload(ctx, file.id, bytes.NewReader(file.content), offer.Size)
	})
	status := ""
	u.retry(rng, "the end of an upload", func(n int) error { // another node completes it if its node was killed
		got, err := u.from[n].Transfer(ctx, file.id)
		if status = got.Status; status == api.TransferPending || status == api.TransferTransferring {
			err = fmt.Errorf("the transfer is %s", status)
		}
		return err
	})
	if status != api.TransferDone {
		u.bad("an uploaded file is %q", status)
		return
	}
	if message {
		said := api.Send{ClientID: file.id, Content: api.Content{Kind: api.MessageFile, Media: &api.Media{File: file.id}}}
		u.retry(rng, "a message with a file", func(n int) error {
			sent, err := u.from[n].Send(ctx, client.ChatWith(u.ids[1]), said)
			file.seq = sent.Seq
			return err
		})
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent = append(u.sent, file)
}

// check fetches all files at both nodes, and deletes them, which leaves nothing.
func (u *uploads) check() {
	ctx := u.t.Context()
	stored := func(id string) (n int64) {
		if err := u.db.QueryRowContext(ctx, "SELECT COALESCE(SUM(size), 0) FROM transfer_parts WHERE transfer = ?", id).Scan(&n); err != nil {
			u.t.Error(err)
		}
		return n
	}
	for _, file := range u.sent {
		if n := stored(file.id); n != int64(len(file.content)) {
			u.bad("of a file of %d bytes %d are stored", len(file.content), n)
		}
		var messages, files int64
		if err := u.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM messages WHERE client_id = ?), "+
			"(SELECT COUNT(*) FROM message_files WHERE file = ?)", file.id, file.id).Scan(&messages, &files); err != nil {
			u.t.Error(err)
		}
		want := min(file.seq, 1)
		u.checked[want]++
		if messages != want || files != want {
			u.bad("a file has %d messages and %d rows, want %d of both", messages, files, want)
		}
		for i, c := range u.to {
			var got bytes.Buffer
			var err error
			if file.seq > 0 {
				_, err = c.FetchFile(ctx, client.ChatWith(u.ids[0]), file.seq, 0, 0, &got)
			} else {
				_, err = c.Download(ctx, file.id, 0, &got)
			}
			if err != nil || !bytes.Equal(got.Bytes(), file.content) {
				u.bad("at node %d %d bytes of a file of %d came, %v", i, got.Len(), len(file.content), err)
			}
		}
		var err error
		if file.seq > 0 {
			err = u.from[0].RecallMessage(ctx, client.ChatWith(u.ids[1]), file.seq)
		} else {
			_, err = u.from[0].CancelTransfer(ctx, file.id)
		}
		if err != nil {
			u.bad("a file is not deleted: %v", err)
		}
	}
	eventually.True(u.t, "the deleted files to be removed", func() bool {
		return !slices.ContainsFunc(u.sent, func(file upload) bool { return stored(file.id) > 0 })
	})
	u.t.Log(fmt.Sprint(len(u.sent), " files were sent"))
	u.sent = nil
}
