package e2e

import (
	"bytes"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// struck is a file that calls a function when one of its bytes is sent.
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

// filesWorld is two nodes that share everything, and two users with each other's ids.
type filesWorld struct {
	t      *testing.T
	maria  *sqldbtest.Instance
	redis  *redistest.Instance
	hc     *http.Client
	nodes  []*node
	people []api.Tokens
	folder string // folder of the files
}

// at returns the client of a user at a node.
func (w *filesWorld) at(node, who int) *client.Client {
	w.t.Helper()
	c, err := client.New(w.nodes[node].URL(), client.WithTokens(w.people[who]))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func newFilesWorld(t *testing.T) *filesWorld {
	t.Helper()
	folder := t.TempDir()
	maria := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true, TCP: true})
	server := redistest.Server(t)
	env := []string{"STOA_SECRET=" + crand.Text() + crand.Text()}
	args := []string{"--sql", maria.URL, "--redis", server.URL, "--limits=false", "--dev=true", "--files-from", "everybody",
		"--chats-messages-from", "everybody", "--files-storage", "folder:" + folder}
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
	return &filesWorld{t: t, maria: maria, redis: server, hc: hc, nodes: nodes, people: people, folder: folder}
}

// The node of an upload is killed in the middle of it, then Redis, then SQL. The upload resumes from the stored offset.
// No part is stored twice, and the file is complete.
func TestAnUploadOutlivesANodeRedisAndSQL(t *testing.T) {
	t.Parallel()
	w := newFilesWorld(t)
	maria, server, hc, nodes, people, at := w.maria, w.redis, w.hc, w.nodes, w.people, w.at
	ctx := t.Context()
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

	// Another file, during which SQL is killed.
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
		if err := db.QueryRowContext(ctx, "SELECT SUM(size) FROM transfer_parts WHERE transfer = ?", one.ID).Scan(&stored); err != nil ||
			stored != int64(len(data)) {
			t.Errorf("%d bytes are stored, %v", stored, err)
		}
	}
}

// The node is killed in the middle of the upload of a message's file, and SQL between the upload and the message. The
// node that stores the message is killed right after it. The message has the complete file, once, and its recall leaves
// nothing.
func TestAMessageWithAFileOutlivesANodeAndSQL(t *testing.T) {
	t.Parallel()
	w := newFilesWorld(t)
	ctx := t.Context()
	data := make([]byte, 24<<20+7)
	_, _ = rand.NewChaCha8([32]byte{byte(rand.Uint32())}).Read(data)
	begun, err := w.at(0, 0).OfferFile(ctx, api.TransferOffer{Name: "file", Size: int64(len(data))})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.at(0, 0).Upload(ctx, begun.ID, &struck{bytes.NewReader(data), 14 << 20, w.nodes[0].Kill}, int64(len(data))); !errors.Is(err,
		client.ErrUnreachable) {
		t.Fatalf("with its node killed: %v", err)
	}
	chat := client.ChatWith(w.people[1].User.ID)
	said := api.Send{ClientID: "once", Content: api.Content{Kind: api.MessageFile, Media: &api.Media{File: begun.ID}}}
	if _, err := w.at(1, 0).Send(ctx, chat, said); client.CodeOf(err) != "message.file" {
		t.Errorf("half a file is sent: %v", err)
	}
	if err := w.at(1, 0).Upload(ctx, begun.ID, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	w.maria.Kill9(t)
	if _, err := w.at(1, 0).Send(ctx, chat, said); err == nil {
		t.Error("a message is stored without SQL")
	}
	w.maria.Restart(t)
	var sent api.Sent
	eventually.NoError(t, "the message to be stored", func() (err error) {
		sent, err = w.at(1, 0).Send(ctx, chat, said)
		return err
	})
	w.nodes[1].Kill()
	w.nodes[0].Start()
	waitReady(t, w.hc, w.nodes[0])
	if again, err := w.at(0, 0).Send(ctx, chat, said); err != nil || again.ID != sent.ID {
		t.Errorf("sent again it is %+v, %v", again, err)
	}
	theirs := client.ChatWith(w.people[0].User.ID)
	var got bytes.Buffer
	if _, err := w.at(0, 1).FetchFile(ctx, theirs, sent.Seq, 0, 0, &got); err != nil || !bytes.Equal(got.Bytes(), data) {
		t.Errorf("%d bytes came, %v", got.Len(), err)
	}
	db := sqldbtest.Open(t, sqldb.Config{URL: w.maria.URL})
	counts := func() (out [3]int64) {
		t.Helper()
		for i, query := range []string{"SELECT COUNT(*) FROM messages", "SELECT COUNT(*) FROM message_files",
			"SELECT COALESCE(SUM(size), 0) FROM transfer_parts"} {
			if err := db.QueryRowContext(ctx, query).Scan(&out[i]); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	if got := counts(); got != [3]int64{1, 1, int64(len(data))} {
		t.Errorf("messages, files and bytes are %d", got)
	}
	if err := w.at(0, 0).RecallMessage(ctx, chat, sent.Seq); err != nil {
		t.Fatal(err)
	}
	if got := counts(); got[0] != 1 || got[1] != 0 {
		t.Errorf("after the recall messages, files and bytes are %d", got)
	}
	// The recall does not wait for the storage. The parts that the killed node was writing remain. The sweep removes them
	// hours later.
	eventually.True(t, "the file to be removed", func() bool {
		parts, err := filepath.Glob(filepath.Join(w.folder, "*", "*"))
		return err == nil && len(parts) <= 2 && counts()[2] == 0
	})
}
