package e2e

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/live/livetest"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// The node of a publisher is killed with kill -9. Its viewers at another node are disconnected, the stream ends when
// the lease expires, and there are never two publishers.
func TestAPublishersNodeIsKilled(t *testing.T) {
	t.Parallel()
	common := []string{"--sql", sqldbtest.Server(t).URL, "--redis", redistest.Server(t).URL, "--dev=true", "--limits=false",
		"--live-udp", "127.0.0.1:0"}
	env := []string{"STOA_SECRET=0123456789abcdef0123456789abcdef"}
	first, second := newNode(t, env, common...), newNode(t, env, common...)
	ctx := t.Context()
	ann := register(t, second.URL(), "ann@example.org")
	made, err := ann.CreateStream(ctx, api.StreamNew{Title: "Sunday match"})
	if err != nil {
		t.Fatal(err)
	}
	path := "/v1/streams/" + made.Stream.ID
	publish := func(n *node) (*livetest.Publisher, error) {
		return livetest.Publish(ctx, livetest.Camera{KeyEvery: time.Second},
			livetest.Post(http.DefaultClient, n.URL()+path+"/whip", made.Keys.Publish, nil))
	}
	watch := func(n *node) *livetest.Viewer {
		t.Helper()
		var v *livetest.Viewer
		eventually.NoError(t, "a viewer to come in", func() (err error) {
			v, err = livetest.Watch(ctx, livetest.Post(http.DefaultClient, n.URL()+path+"/whep", made.Keys.Play, nil))
			return err
		})
		t.Cleanup(v.Close)
		eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 5 })
		return v
	}
	p, err := publish(first)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	far := watch(second)
	eventually.True(t, "the viewer to count", func() bool {
		st, err := ann.Stream(ctx, made.Stream.ID)
		return err == nil && st.Live != nil && st.Live.Viewers == 1
	})
	if _, err := publish(second); status(err) != http.StatusConflict {
		t.Fatalf("a second publisher: %v", err)
	}
	first.Kill()
	refused := 0
	var next *livetest.Publisher
	eventually.NoError(t, "another publisher to come in", func() error {
		next, err = publish(second)
		if status(err) == http.StatusConflict {
			refused++
		}
		return err
	})
	defer next.Close()
	if refused == 0 {
		t.Error("another publisher came in before the lease had run out")
	}
	eventually.True(t, "the viewer of the first one to be sent away", far.Ended)
	near := watch(second)
	if n := near.Frames()[0].Number; n > next.Sent.Load() {
		t.Errorf("picture %d has come, %d were sent", n, next.Sent.Load())
	}
	eventually.True(t, "viewers to be counted right", func() bool {
		st, err := ann.Stream(ctx, made.Stream.ID)
		return err == nil && st.Live != nil && st.Live.Viewers == 1
	})
	first.Start()
	watch(first)
}

// status returns the status of a refusal, or 0 if there is none.
func status(err error) int {
	if refused, ok := errors.AsType[*livetest.Refused](err); ok {
		return refused.Status
	}
	return 0
}

// register creates an account at a development server.
func register(t *testing.T, url, email string) *client.Client {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.RequestCode(ctx, api.CodeRequest{Email: email, Purpose: api.PurposeRegister}); err != nil {
		t.Fatal(err)
	}
	code := ""
	eventually.True(t, "a code to be mailed", func() bool {
		mails, err := c.DevMails(ctx, email)
		if err == nil && len(mails) > 0 {
			code = mails[0].Code
		}
		return code != ""
	})
	if _, err := c.Register(ctx, api.RegisterRequest{Email: email, Code: code, Name: "Ann", Zone: "UTC"}); err != nil {
		t.Fatal(err)
	}
	return c
}
