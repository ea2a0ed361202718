// Command files compares transfers of files with their minimal cost: a copy between two sockets whose reader computes
// SHA-256. The server is a child, on SQLite and the embedded Redis.
//
//	go run ./files [-size 1073741824] [-rounds 3] [-folder DIR] [-many 16] [-short]
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/client"
)

var (
	size   = flag.Int64("size", 1<<30, "bytes of a file")
	rounds = flag.Int("rounds", 3, "of which the median counts")
	folder = flag.String("folder", "", "where the server keeps files; empty: a temporary folder")
	many   = flag.Int("many", 16, "uploads at once, for the memory of each")
	short  = flag.Bool("short", false, "shows only that everything runs")
)

func main() {
	flag.Parse()
	if *short {
		*size, *rounds, *many = 32<<20, 1, 4
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// block is the repeated content of files.
var block = func() []byte {
	b := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

// endless is a file of blocks without an end.
type endless struct{}

// ReadAt implements io.ReaderAt.
func (endless) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		n += copy(b[n:], block[(at+int64(n))%int64(len(block)):])
	}
	return n, nil
}

func content() io.Reader { return io.NewSectionReader(endless{}, 0, *size) }

// bare measures a copy between two sockets whose reader hashes.
func bare() (time.Duration, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	sent := make(chan error, 1)
	go func() {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err == nil {
			_, err = io.Copy(conn, content())
			err = errors.Join(err, conn.Close())
		}
		sent <- err
	}()
	conn, err := ln.Accept()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	n, err := io.Copy(sha256.New(), conn)
	took := time.Since(began)
	if n != *size {
		err = errors.Join(err, io.ErrUnexpectedEOF)
	}
	return took, errors.Join(err, conn.Close(), <-sent)
}

// pair is two users of a server.
type pair struct {
	server   *servers.Program
	from, to *client.Client
}

func (p *pair) signUp(ctx context.Context, name string) (*client.Client, error) {
	c, err := client.New("http://" + p.server.Addr)
	if err != nil {
		return nil, err
	}
	email := name + "@example.org"
	if _, err := c.RequestCode(ctx, api.CodeRequest{Email: email, Purpose: api.PurposeRegister}); err != nil {
		return nil, err
	}
	for range 100 {
		mails, err := c.DevMails(ctx, email)
		if err != nil {
			return nil, err
		}
		if len(mails) > 0 && mails[0].Code != "" {
			_, err := c.Register(ctx, api.RegisterRequest{Email: email, Code: mails[0].Code, Name: name, Zone: "UTC"})
			return c, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errors.New("no code was mailed")
}

// begin offers a file and accepts it.
func (p *pair) begin(ctx context.Context) (string, error) {
	t, err := p.from.OfferFile(ctx, api.TransferOffer{To: p.to.Tokens().User.ID, Name: "file", Size: *size})
	if err == nil {
		_, err = p.to.AcceptTransfer(ctx, t.ID)
	}
	return t.ID, err
}

// file uploads and downloads a file.
func (p *pair) file(ctx context.Context) (up, down time.Duration, err error) {
	id, err := p.begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := p.from.Upload(ctx, id, endless{}, *size); err != nil {
		return 0, 0, err
	}
	up = time.Since(began)
	t, err := p.to.Transfer(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	sum := sha256.New()
	began = time.Now()
	n, err := p.to.Download(ctx, id, 0, sum)
	down = time.Since(began)
	switch {
	case err != nil:
		return 0, 0, err
	case n != *size || hex.EncodeToString(sum.Sum(nil)) != t.SHA256:
		return 0, 0, errors.New("another file came back")
	}
	_, err = p.from.CancelTransfer(ctx, id)
	return up, down, err
}

// memory returns the growth of the server's resident memory for each of many concurrent uploads, and then for each of
// as many downloads.
func (p *pair) memory(ctx context.Context) (up, down float64, err error) {
	ids := make([]string, *many)
	for i := range ids {
		if ids[i], err = p.begin(ctx); err != nil {
			return 0, 0, err
		}
	}
	peak := func(each func(id string) error) (float64, error) {
		before, err := p.server.Resident()
		if err != nil {
			return 0, err
		}
		most, faults := before, make([]error, len(ids))
		var all sync.WaitGroup
		var ended atomic.Bool
		for i, id := range ids {
			all.Go(func() { faults[i] = each(id) })
		}
		done := make(chan struct{})
		go func() { all.Wait(); ended.Store(true); close(done) }()
		for !ended.Load() {
			now, err := p.server.Resident()
			if err != nil {
				return 0, err
			}
			most = max(most, now)
			select {
			case <-done:
			case <-time.After(20 * time.Millisecond):
			}
		}
		return (most - before) / float64(len(ids)), errors.Join(faults...)
	}
	if up, err = peak(func(id string) error { return p.from.Upload(ctx, id, endless{}, *size) }); err != nil {
		return 0, 0, err
	}
	down, err = peak(func(id string) error {
		_, err := p.to.Download(ctx, id, 0, io.Discard)
		return err
	})
	for _, id := range ids {
		_, gone := p.from.CancelTransfer(ctx, id)
		err = errors.Join(err, gone)
	}
	return up, down, err
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "stoa-bench-files-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := servers.Build(ctx, dir)
	if err != nil {
		return err
	}
	files := *folder
	if files == "" {
		files = filepath.Join(dir, "files")
	}
	p := &pair{}
	if p.server, err = servers.Start(exec.Command(binary, "serve", "--addr", "127.0.0.1:0", "--data", dir, "--log", "error", "--dev",
		"--no-limits",
		"--files-from", "everybody", "--files-storage", "folder:"+files, "--files-day-bytes", fmt.Sprint(int64(1)<<50), "--files-open", "1000",
		"--files-max-size", fmt.Sprint(int64(1)<<40))); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.server.Stop()) }()
	if p.from, err = p.signUp(ctx, "ann"); err != nil {
		return err
	}
	if p.to, err = p.signUp(ctx, "bob"); err != nil {
		return err
	}
	var all [3][]time.Duration // bare, up, down
	for range *rounds {
		b, err := bare()
		if err != nil {
			return err
		}
		up, down, err := p.file(ctx)
		if err != nil {
			return err
		}
		for i, d := range []time.Duration{b, up, down} {
			all[i] = append(all[i], d)
		}
	}
	rate := func(i int) float64 {
		slices.Sort(all[i])
		return float64(*size) / (1 << 20) / all[i][len(all[i])/2].Seconds()
	}
	fmt.Printf("%d MiB, median of %d\n", *size>>20, *rounds)
	fmt.Printf("  two sockets and SHA-256  %6.0f MiB/s\n", rate(0))
	fmt.Printf("  upload                   %6.0f MiB/s  %.2f of that\n", rate(1), rate(1)/rate(0))
	fmt.Printf("  download                 %6.0f MiB/s  %.2f of that\n", rate(2), rate(2)/rate(0))
	*size = min(*size, 128<<20)
	up, down, err := p.memory(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d at once: the server grows by %.1f MB for each upload, %.1f MB for each download\n", *many, up/1e6, down/1e6)
	return nil
}
