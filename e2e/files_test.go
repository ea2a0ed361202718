package e2e

import (
	"bytes"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/eventually"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/redis/redistest"
)

// struck is a file of which something happens when a byte of it is sent.
type struck struct {
	*bytes.Reader
	at     int64
	strike func()
}

func (s *struck) ReadAt(b []byte, at int64) (int, error) {
	if at <= s.at && s.at < at+int64(len(b)) && s.strike != nil {
		strike := s.strike
		s.strike = nil
		strike()
	}
	return s.Reader.ReadAt(b, at)
}

// The node that takes an upload is killed in the middle of it, then Redis, then SQL: the
// upload goes on from what was stored, nothing is stored twice, and the file is whole.
func TestAnUploadOutlivesANodeRedisAndSQL(t *testing.T) {
	t.Parallel()
	maria := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true, TCP: true})
	server := redistest.Server(t)
	env := []string{"STOA_SECRET=" + crand.Text() + crand.Text()}
	args := []string{"--sql", maria.URL, "--redis", server.URL, "--limits=false", "--dev=true", "--files-from", "everybody", "--files-storage", "folder:" + t.TempDir()}
	nodes := []*node{newNode(t, env, args...), newNode(t, env, args...)}
	hc := &http.Client{Timeout: patience}
	for _, n := range nodes {
		waitReady(t, hc, n)
	}
	ctx := t.Context()
	people := make([]api.Tokens, 2)
	for i, email := range []string{"ann@example.org", "bob@example.org"} {
		c, err := client.New(nodes[i].URL())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.RequestCode(ctx, api.CodeRequest{Email: email, Purpose: api.PurposeRegister}); err != nil {
			t.Fatal(err)
		}
		code := ""
		eventually.NoError(t, "a code to be mailed", func() error {
			mails, err := c.DevMails(ctx, email)
			if err == nil && (len(mails) == 0 || mails[0].Code == "") {
				return errors.New("there is none")
			}
			if err == nil {
				code = mails[0].Code
			}
			return err
		})
		if people[i], err = c.Register(ctx, api.RegisterRequest{Email: email, Code: code, Name: email, Zone: "UTC"}); err != nil {
			t.Fatal(err)
		}
	}
	at := func(node, who int) *client.Client {
		c, err := client.New(nodes[node].URL(), client.WithTokens(people[who]))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	data := make([]byte, 40<<20+77)
	_, _ = rand.NewChaCha8([32]byte{byte(rand.Uint32())}).Read(data)
	offered, err := at(0, 0).OfferFile(ctx, api.TransferOffer{To: people[1].User.ID, Name: "file", Size: int64(len(data))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := at(1, 1).AcceptTransfer(ctx, offered.ID); err != nil {
		t.Fatal(err)
	}

	send := func(c *client.Client, from int64, strike func()) error {
		return c.Upload(ctx, offered.ID, &struck{bytes.NewReader(data), from, strike}, int64(len(data)))
	}
	if err := send(at(0, 0), 14<<20, nodes[0].Kill); !errors.Is(err, client.ErrUnreachable) {
		t.Fatalf("with its node killed: %v", err)
	}
	before, err := at(1, 0).Transfer(ctx, offered.ID)
	if err != nil || before.Status != api.TransferTransferring {
		t.Fatalf("got %+v, %v", before, err)
	}
	t.Logf("%d bytes had come when the node was killed", before.Received)
	var all sync.WaitGroup
	err = send(at(1, 0), 22<<20, func() {
		server.Kill()
		all.Go(server.Restart)
	})
	all.Wait()
	if err != nil {
		t.Fatalf("with Redis killed: %v", err)
	}

	// Another file, under which SQL dies.
	offered, err = at(1, 0).OfferFile(ctx, api.TransferOffer{To: people[1].User.ID, Name: "file", Size: int64(len(data))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := at(1, 1).AcceptTransfer(ctx, offered.ID); err != nil {
		t.Fatal(err)
	}
	strike := func() {
		maria.Kill9(t)
		maria.Restart(t)
	}
	c := at(1, 0)
	eventually.NoError(t, "the upload to go on", func() error {
		err := send(c, 22<<20, strike)
		strike = nil
		return err
	})
	nodes[0].Start()
	waitReady(t, hc, nodes[0])
	db := sqldbtest.Open(t, sqldb.Config{URL: maria.URL})
	list, err := at(0, 1).Transfers(ctx, "")
	if err != nil || len(list.Transfers) != 2 {
		t.Fatalf("got %+v, %v", list, err)
	}
	for _, one := range list.Transfers {
		var whole bytes.Buffer
		if _, err := at(0, 1).Download(ctx, one.ID, 0, &whole); err != nil || !bytes.Equal(whole.Bytes(), data) {
			t.Errorf("%+v: %d bytes came, %v", one, whole.Len(), err)
		}
		var stored int64
		if err := db.QueryRowContext(ctx, "SELECT SUM(size) FROM transfer_parts WHERE transfer = ?", one.ID).Scan(&stored); err != nil || stored != int64(len(data)) {
			t.Errorf("%d bytes are stored, %v", stored, err)
		}
	}
}
