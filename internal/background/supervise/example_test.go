package supervise_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/stoa-dev/stoa/internal/background/supervise"
)

func Example() {
	var g supervise.Group
	g.Add(supervise.Part{Name: "redis", Run: func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		return nil
	}})
	g.Add(supervise.Part{Name: "http", Run: func(ctx context.Context, ready func()) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{ReadHeaderTimeout: time.Second}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		ready()
		select {
		case err := <-served:
			return err
		case <-ctx.Done():
			err := server.Shutdown(context.WithoutCancel(ctx))
			<-served // http.ErrServerClosed
			return err
		}
	}})

	ctx, stop := context.WithCancel(context.Background())
	g.Add(supervise.Part{Name: "last", Run: func(ctx context.Context, ready func()) error {
		ready()
		for _, s := range g.States()[:2] {
			fmt.Printf("%+v\n", s)
		}
		stop()
		<-ctx.Done()
		return nil
	}})
	fmt.Println(g.Run(ctx))
	// Output:
	// {Name:redis Ready:true Degraded:}
	// {Name:http Ready:true Degraded:}
	// <nil>
}
