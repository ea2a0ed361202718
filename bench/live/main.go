// Command live measures live streams on loopback. One publisher and many viewers use one server, a child on SQLite and
// the embedded Redis. It measures the lost pictures, the time from sending a picture until it has arrived completely,
// and the server's processor time. It also measures the time until a late viewer sees the newest picture.
//
//	go run ./live [-viewers 50] [-bitrate 1000000] [-time 30s] [-late 20] [-short]
//
// Publisher and viewers are in this program, on the same processors as the server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/live/livetest"
)

var (
	viewers = flag.Int("viewers", 50, "how many watch at once")
	bitrate = flag.Int("bitrate", 1_000_000, "bits a second of the pictures")
	length  = flag.Duration("time", 30*time.Second, "how long they watch")
	late    = flag.Int("late", 20, "how many come late, one after another")
	short   = flag.Bool("short", false, "shows only that everything runs")
)

func main() {
	flag.Parse()
	if *short {
		*viewers, *length, *late = 5, 2*time.Second, 2
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() (err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	dir, err := os.MkdirTemp("", "stoa-bench-live-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := servers.Build(ctx, dir)
	if err != nil {
		return err
	}
	server, err := servers.Start(exec.Command(binary, "serve", "--addr", "127.0.0.1:0", "--data", dir, "--log", "error", "--dev",
		"--no-limits", "--live-udp", "127.0.0.1:0"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	owner, err := signUp(ctx, "http://"+server.Addr)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		what string
		cam  livetest.Camera
	}{
		{"a key frame every 2 s, none when asked", livetest.Camera{Bitrate: *bitrate, KeyEvery: 2 * time.Second, Deaf: true}},
		{"key frames when asked alone, as browsers do", livetest.Camera{Bitrate: *bitrate}},
	} {
		fmt.Printf("%d viewers of %.1f Mbit/s for %s; %s\n", *viewers, float64(*bitrate)/1e6, *length, c.what)
		if err := watch(ctx, server, owner, c.cam); err != nil {
			return err
		}
	}
	return nil
}

func signUp(ctx context.Context, url string) (*client.Client, error) {
	c, err := client.New(url)
	if err != nil {
		return nil, err
	}
	const email = "ann@example.org"
	if _, err := c.RequestCode(ctx, api.CodeRequest{Email: email, Purpose: api.PurposeRegister}); err != nil {
		return nil, err
	}
	for range 100 {
		mails, err := c.DevMails(ctx, email)
		if err != nil {
			return nil, err
		}
		if len(mails) > 0 && mails[0].Code != "" {
			_, err := c.Register(ctx, api.RegisterRequest{Email: email, Code: mails[0].Code, Name: "Ann", Zone: "UTC"})
			return c, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errors.New("no code was mailed")
}

// watch measures one publisher's stream.
func watch(ctx context.Context, server *servers.Program, owner *client.Client, cam livetest.Camera) error {
	made, err := owner.CreateStream(ctx, api.StreamNew{Title: "Benchmark"})
	if err != nil {
		return err
	}
	base := "http://" + server.Addr + "/v1/streams/" + made.Stream.ID
	join := func() (*livetest.Viewer, error) {
		return livetest.Watch(ctx, livetest.Post(http.DefaultClient, base+"/whep", made.Keys.Play, nil))
	}
	p, err := livetest.Publish(ctx, cam, livetest.Post(http.DefaultClient, base+"/whip", made.Keys.Publish, nil))
	if err != nil {
		return err
	}
	defer p.Close()
	all := make([]*livetest.Viewer, *viewers)
	for i := range all {
		if all[i], err = join(); err != nil {
			return err
		}
		defer all[i].Close()
	}
	time.Sleep(2 * time.Second) // until all have arrived
	began, before := time.Now(), make([]int, len(all))
	for i, v := range all {
		before[i] = len(v.Frames())
	}
	used, err := server.Processor()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(*length):
	}
	took := time.Since(began)
	after, err := server.Processor()
	if err != nil {
		return err
	}
	pictures, lost, glass := 0, int64(0), []time.Duration{}
	for i, v := range all {
		frames := v.Frames()[before[i]:]
		pictures += len(frames)
		for j, f := range frames {
			glass = append(glass, f.Came.Sub(f.Sent))
			if j > 0 {
				lost += f.Number - frames[j-1].Number - 1
			}
		}
	}
	slices.Sort(glass)
	fmt.Printf("  %d pictures came, %d were lost; sent to whole: median %s, 99 in 100 %s, most %s; the server used %.0f%% of a processor\n",
		pictures, lost,
		at(glass, 50), at(glass, 99), glass[len(glass)-1].Round(time.Millisecond), 100*(after-used).Seconds()/took.Seconds())
	var first, newest []time.Duration
	for range *late {
		time.Sleep(317 * time.Millisecond) // at any point between two key frames
		came := time.Now()
		v, err := join()
		if err != nil {
			return err
		}
		for { // until a picture arrives that was sent after the viewer joined
			frames := v.Frames()
			if i := slices.IndexFunc(frames, func(f livetest.Frame) bool { return f.Sent.After(came) }); i >= 0 {
				first, newest = append(first, frames[0].Came.Sub(came)), append(newest, frames[i].Came.Sub(came))
				break
			}
			if time.Since(came) > 15*time.Second {
				return errors.New("who came late saw nothing")
			}
			time.Sleep(time.Millisecond)
		}
		v.Close()
	}
	slices.Sort(first)
	slices.Sort(newest)
	fmt.Printf("  who comes late: the first picture after %s (median), %s (most); the newest after %s, %s\n", at(first, 50),
		first[len(first)-1].Round(time.Millisecond), at(newest, 50), newest[len(newest)-1].Round(time.Millisecond))
	return nil
}

// at returns a percentile.
func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)-1)*percent/100].Round(time.Millisecond)
}
