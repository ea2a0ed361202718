package wholeserver

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/internal/transfers/storage/storagetest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// An S3 server, MariaDB and Redis hang one after the other, and ann calls every operation on her resources. All
// responses arrive before a server continues.
func TestEveryOperationAnswersWhileServersHang(t *testing.T) {
	t.Parallel()
	maria := sqldbtest.OwnServer(t, sqldbtest.Options{Engine: sqldbtest.Default(t)})
	rdb := redistest.Server(t)
	setting, s3 := storagetest.S3(t)
	var hangs atomic.Pointer[chan struct{}] // the S3 server responds when it is closed; nil means at once
	serve := s3.Config.Handler
	s3.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if until := hangs.Load(); until != nil {
			_, _ = io.Copy(io.Discard, r.Body)
			<-*until
		}
		serve.ServeHTTP(w, r)
	})
	w := newWorld(t, func(cfg *app.Config) {
		cfg.SQL, cfg.Redis, cfg.Files.Storage = maria.URL, rdb.URL, setting
	})
	w.away, w.hc.Timeout = true, time.Minute
	var files []request // requests that need the S3 server
	for _, tt := range []struct {
		name      string
		stop, end func()
		least     int // least number of operations that report an unavailable part
	}{
		{"S3", func() { c := make(chan struct{}); hangs.Store(&c) }, func() { close(*hangs.Swap(nil)) }, 0},
		{"MariaDB", func() { maria.Pause(t) }, func() { maria.Resume(t) }, len(w.ops) / 2},
		{"Redis", rdb.Pause, rdb.Resume, 1},
	} {
		w.populate() // the earlier calls have deleted much of it
		if tt.name == "S3" {
			files = w.ofFiles()
		}
		tt.stop()
		var away, stored atomic.Int64
		var asked sync.WaitGroup
		ask := func(name string, r request, count *atomic.Int64) {
			asked.Go(func() {
				a, err := w.try(r)
				switch {
				case err != nil:
					t.Errorf("%s hangs: %s has no answer: %v", tt.name, name, err)
				case a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "":
					t.Errorf("%s hangs: %s answers 503 without Retry-After: %s", tt.name, name, a.body)
				case a.status == http.StatusServiceUnavailable:
					count.Add(1)
				}
				if count == &stored && (a.code() != "transfer.storage_away" || a.header.Get("Content-Disposition")+a.header.Get("Etag")+
					a.header.Get("Content-Range") != "") {
					t.Errorf("%s hangs: %s answers %d %v %s", tt.name, name, a.status, a.header, a.body)
				}
			})
		}
		for _, r := range files {
			ask(r.method+" "+r.path, r, &stored)
		}
		files = nil
		for _, o := range w.ops {
			ask(o.String(), w.hers(o), &away)
		}
		asked.Wait()
		tt.end()
		if n := int(away.Load()); n < tt.least {
			t.Errorf("%s hangs, and %d of %d operations answer that it is away, want %d", tt.name, n, len(w.ops), tt.least)
		}
	}
}

// ofFiles returns requests of ann's that read from, and write to, the storage of files.
func (w *world) ofFiles() []request {
	w.t.Helper()
	token := w.ann.AccessToken
	link := parse[api.FileLink](w.t, w.must("POST", "/v1/transfers/"+w.belongs["file"]+"/link", token, nil)).URL
	if a := w.send(request{method: "GET", path: link}); a.body != "the hidden content of a file" {
		w.t.Fatalf("got %d %s", a.status, a.body)
	}
	note := "another file"
	begun := parse[api.Transfer](w.t, w.must("POST", "/v1/transfers", token, api.TransferOffer{Name: "a note", Size: int64(len(note))}))
	return []request{
		{method: "GET", path: link},
		{method: "GET", path: link, header: http.Header{"Range": {"bytes=4-9"}}},
		{method: "PATCH", path: "/v1/transfers/" + begun.ID + "/upload", media: "application/offset+octet-stream", token: token,
			body: strings.NewReader(note), header: http.Header{"Upload-Offset": {"0"}}},
	}
}

// hers returns ann's request to an operation on her resources.
func (w *world) hers(o op) request {
	hers := map[string]any{}
	for _, p := range o.places() {
		if p.in == "path" && w.belongs[p.name] != "" {
			hers[p.String()] = w.belongs[p.name]
		}
	}
	r := o.request(w.t, hers)
	r.token = w.ann.AccessToken
	return r
}
